"""Serves one Session stream, whatever carries it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from lacuna.controlplane.client.errors import ControlPlaneUnavailable
from lacuna.controlplane.client.host import HostSession
from lacuna.controlplane.roles import refusals
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.shared.contract import own_contract, why_not
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from lacuna.controlplane.v1.control_pb2 import (
    Command,
    ControlPlaneStatus,
    NotLeader,
    Reply,
    SessionRequest,
    SessionResponse,
    Standby,
)
from lacuna.controlplane.v1.log_pb2 import PartitionDelta

#: How often a client hears at least something.
BEAT_SECONDS: Final = 1.0


class ServedPlane(Protocol):
    """The control plane that a process serves: alone on its journal, or one of several."""

    @property
    def plane(self) -> Runtime | None:
        """The runtime while it leads."""
        ...

    @property
    def leader(self) -> str:
        """Where the leader serves; empty if nobody leads."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it leads, or could take over at once."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it will lead no more."""
        ...

    @property
    def changed(self) -> asyncio.Event:
        """Set, and replaced by another one, when one of the above has changed."""
        ...

    def status(self, standby: Standby | None = None) -> ControlPlaneStatus:
        """Return what is known of all control planes; `standby` is who asks, if that is one."""
        ...


async def serve_stream(
    served: ServedPlane,
    requests: AsyncIterator[SessionRequest],
    write: Callable[[SessionResponse], Awaitable[None]],
    max_outbox: int,
    *,
    is_cluster: bool = True,
) -> None:
    """Say who leads until this control plane does, then serve a session as `serve_session` does."""
    while (plane := served.plane) is None:
        if served.is_closed:
            raise ControlPlaneUnavailable("the control plane was stopped")
        changed = served.changed
        await write(SessionResponse(not_leader=NotLeader(leader=served.leader)))
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT_SECONDS):
                await changed.wait()
    await serve_session(plane, requests, write, max_outbox, is_cluster=is_cluster)


async def serve_session(
    plane: Runtime,
    requests: AsyncIterator[SessionRequest],
    write: Callable[[SessionResponse], Awaitable[None]],
    max_outbox: int,
    *,
    is_cluster: bool = True,
) -> None:
    """Serve a session of `plane` until it ends. Raises ControlPlaneUnavailable with the reason, always.

    `is_cluster` if it is of an agent or a control plane; others may do what jobs do (`roles`).

    A session is ended if more than `max_outbox` deltas and replies wait for `write`.
    """
    outbox = _Outbox(max_outbox, plane.epoch)
    session = plane.open_session(outbox, is_cluster=is_cluster)
    reader = asyncio.create_task(_read(plane, requests, session, outbox, is_cluster))
    beating = asyncio.create_task(_beat(outbox))
    try:
        while True:
            await write(await outbox.take())
    finally:
        session.close()
        for task in (reader, beating):
            task.cancel()
        await asyncio.gather(reader, beating, return_exceptions=True)


async def _beat(outbox: "_Outbox") -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        outbox.beat()


async def _read(
    plane: Runtime,
    requests: AsyncIterator[SessionRequest],
    session: HostSession,
    outbox: "_Outbox",
    is_cluster: bool,
) -> None:
    """Pass requests to the session, as fast as the runtime decides them."""
    is_first = True
    try:
        async for request in requests:
            if is_first and (why := why_not(request.contract)):
                raise ControlPlaneUnavailable(f"this client does not fit: {why}")
            is_first = False
            await plane.room()
            if request.unsubscribe:
                session.unsubscribe(_keys(request.unsubscribe))
            if request.subscribe:
                session.subscribe(_keys(request.subscribe))
            commands: Sequence[Command] = request.commands
            if not is_cluster and (refused := refusals(commands)):
                outbox.deliver((), (), refused, plane.durable_position)
                ids = {each.command_id for each in refused}
                commands = [each for each in commands if each.command_id not in ids]
            if commands:
                session.submit(commands)
        outbox.lost(ControlPlaneUnavailable("the client has ended the session"))
    except ControlPlaneUnavailable as error:
        outbox.lost(error)
    except DecodeError:
        outbox.lost(
            ControlPlaneUnavailable("the client sent something that is not a SessionRequest")
        )


def _keys(partitions: Sequence[TopicPartition]) -> list[PartitionKey]:
    return [key_of(partition) for partition in partitions]


class _Outbox:
    """The next message of a session's stream; it is collected while the one before is being written."""

    def __init__(self, max_items: int, epoch: int) -> None:
        self._max_items = max_items
        self._items = 0
        self._response = SessionResponse(contract=own_contract(), epoch=epoch)
        self._wake = asyncio.Event()
        self._lost: ControlPlaneUnavailable | None = None

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        if self._lost is not None:
            return
        self._items += len(partitions) + len(cluster) + len(replies)
        if self._items > self._max_items:
            self._items = 0
            self._response = SessionResponse()
            self.lost(ControlPlaneUnavailable("this client reads too slowly: connect again"))
            return
        self._response.partitions.extend(partitions)
        self._response.cluster.extend(cluster)
        self._response.replies.extend(replies)
        self._response.journal_position = position
        self._wake.set()

    def beat(self) -> None:
        """Send an empty message, so that the client sees us live: one that finds us silent looks for another leader."""
        self._wake.set()

    def lost(self, error: ControlPlaneUnavailable) -> None:
        self._lost = error
        self._wake.set()

    async def take(self) -> SessionResponse:
        """Wait for the next message, which may be empty. Raises ControlPlaneUnavailable after the last one."""
        await self._wake.wait()
        if self._lost is None:
            self._wake.clear()
        elif not self._items:
            raise self._lost
        response, self._response = self._response, SessionResponse()
        self._items = 0
        return response
