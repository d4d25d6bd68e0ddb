"""Finds a job's cluster from --bootstrap, --data, --control and --store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lacuna.cli.configuration import is_typed
from lacuna.cli.errors import fail
from lacuna.cli.options import control_place
from lacuna.operating.control import find_control
from lacuna.operating.relayed import places_of

if TYPE_CHECKING:
    from lacuna.cli.options import JobPlace
    from lacuna.controlplane.client import ControlPlace
    from lacuna.controlplane.v1.control_pb2 import Places
    from lacuna.operating.kafka import Agents
    from lacuna.pipeline.location import ClusterLocation

_LOCAL: Final = "unix:"


def locate(place: JobPlace, *, needs_control: bool = True) -> ClusterLocation:
    """Find the cluster that the options specify, and ask its agents for any location that the options omit.

    With `needs_control`, a control plane must be found as well. Raises PipelineError or UserError, with the remedy.
    """
    from lacuna.pipeline.location import find_cluster

    control, store = place.control, place.store
    if _asks_agents(place):
        learned = asyncio.run(places_of(place.bootstrap))
        if not store and not learned.store:
            fail(
                "this cluster's records exist only inside its own process, so jobs cannot read them"
            )
        store = store or learned.store
        if control is None and needs_control:
            control = _checked(learned, place.bootstrap)
    return find_cluster(
        data=str(place.data) if place.data else None,
        control=control.address if control else None,
        store=store,
        tls=control.tls.by_key() if control else {},
        keys=str(place.encryption_keys) if place.encryption_keys else None,
        needs_control=needs_control,
    )


def _asks_agents(place: JobPlace) -> bool:
    if place.data or (place.control and place.store):
        return False
    is_named = is_typed(click.get_current_context(), "bootstrap")
    return is_named or not (place.control or place.store)


def find_place(control: ControlPlace | None, data: Path | None, agents: Agents) -> ControlPlace:
    """Return the control plane that the options specify, or else the one that the agents use."""
    if control or data:
        return find_control(control, data)
    return _checked(asyncio.run(places_of(agents)), agents)


def _checked(places: Places, agents: Agents) -> ControlPlace:
    """Return the control plane's place. Raises UserError if this process cannot reach it."""
    path = places.control.removeprefix(_LOCAL)
    if places.control.startswith(_LOCAL) and not Path(path).exists():
        fail(
            f"the control plane of the cluster at {agents} listens only on its own machine: run the command there, "
            "or run `lacuna controlplane --listen HOST:PORT` and agents instead of `lacuna up`"
        )
    place = control_place(click.get_current_context(), places.control)
    if places.has_control_tls and not place.tls.is_given:
        fail(
            f"the control plane at {places.control} requires a certificate: specify one with --control-tls-cert, "
            "--control-tls-key and --control-tls-ca"
        )
    return place
