"""Connections to a control plane from other processes."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from lacuna.base.addresses import parse_addresses
from lacuna.base.data_folder import ADDRESS_NAME, left, not_running
from lacuna.base.errors import UserError, did_you_mean
from lacuna.controlplane.client import (
    ClusterView,
    ControlClient,
    ControlPlace,
    ControlPlaneUnavailable,
    made_of,
)
from lacuna.controlplane.client.grpc import GrpcClient
from lacuna.controlplane.client.session import SessionLimits
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.operating.kafka import Agents
from lacuna.operating.relayed import relayed


def topic_named(cluster: ClusterView, name: str) -> Topic:
    """Return a topic. Raises UserError if it does not exist or ACLs hide it."""
    found = cluster.topics_by_name.get(name)
    if found is None:
        hint = did_you_mean(name, cluster.topics_by_name)
        hint = hint or "`lacuna topics list` lists the topics"
        raise UserError(f"there is no topic {name!r}{cluster.whose}; {hint}")
    return found


log = logging.getLogger("lacuna")

T = TypeVar("T")

DEFAULT_DATA = Path("data")
#: A user is waiting at a prompt, but the first answer from a busy machine may take seconds.
_QUESTION = SessionLimits(give_up_after=5.0)
_PAUSE_SECONDS = 1.0
_WARNING_SECONDS = 60.0


@asynccontextmanager
async def connect(
    place: ControlPlace, settings: SessionLimits | None = None
) -> AsyncIterator[ControlClient]:
    """Connects to the control plane at a place, and waits for its first answer.

    Raises UserError for a malformed address or unusable TLS files, and ControlPlaneUnavailable if there is no answer.
    """
    async with client_of(place, settings) as client:
        await client.cluster.ready()
        yield client


@asynccontextmanager
async def client_of(
    place: ControlPlace, settings: SessionLimits | None = None
) -> AsyncIterator[ControlClient]:
    """Yields a client of the control plane at a place, without waiting for the first answer."""
    if not place.address.startswith("unix:"):
        parse_addresses(place.address)
    tls = made_of(place.tls)
    client = GrpcClient(place.address, random.SystemRandom().random, settings, tls=tls)
    client.start()
    try:
        yield client
    finally:
        await client.close()


async def until_answered(step: Callable[[], Awaitable[T]]) -> T:
    """Repeats a step until a control plane answers, and logs once a minute why it is waiting."""
    loop = asyncio.get_running_loop()
    warn_at = loop.time()
    while True:
        try:
            return await step()
        except ControlPlaneUnavailable as error:
            if loop.time() >= warn_at:
                warn_at = loop.time() + _WARNING_SECONDS
                log.warning("%s; trying again until a control plane answers", error)
        await asyncio.sleep(_PAUSE_SECONDS)


@asynccontextmanager
async def open_control(
    place: ControlPlace | None, data: Path | None, agents: Agents
) -> AsyncIterator[ControlClient]:
    """Connects to the control plane at a place or in a data folder or, without either, through an agent.

    Gives up after 5 seconds. Raises UserError if no running cluster uses the folder, or if no agent answers.
    """
    if place is None and data is None:
        async with relayed(agents) as relay:
            yield relay
        return
    async with connect(find_control(place, data), _QUESTION) as client:
        yield client


def find_control(place: ControlPlace | None, data: Path | None) -> ControlPlace:
    """Return the given place, or else that of the running cluster in the folder `data` (default: data/).

    Raises UserError if there is none.
    """
    folder = data or DEFAULT_DATA
    chosen = place or ControlPlace(left(folder, ADDRESS_NAME))
    if not chosen.address:
        raise UserError(not_running(folder))
    return chosen
