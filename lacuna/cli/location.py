"""Finds the cluster that a job works on from --data, --control and --store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lacuna.operating.control import DEFAULT_DATA

if TYPE_CHECKING:
    from lacuna.cli.options import JobPlace
    from lacuna.pipeline.location import ClusterLocation


def locate(place: JobPlace, *, needs_control: bool = True) -> ClusterLocation:
    """Return the cluster that the options name, or the one on ./data if they name none.

    With `needs_control` the location must include a control plane. Raises PipelineError with the
    correction.
    """
    from lacuna.pipeline.location import find_cluster

    data, control, keys = place.data, place.control, place.encryption_keys
    folder = data if data or control or place.store else DEFAULT_DATA
    return find_cluster(
        data=str(folder) if folder else None,
        control=control.address if control else None,
        store=place.store,
        tls=control.tls.by_key() if control else {},
        keys=str(keys) if keys else None,
        needs_control=needs_control,
    )
