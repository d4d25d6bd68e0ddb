"""Serves a Session stream, regardless of the transport."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from lacuna.controlplane.client.host import HostSession
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.rights import Job, refusals
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

#: The longest time between two messages to a client.
BEAT_SECONDS: Final = 1.0
#: A message holds at most this many deltas and replies, plus those of one decision.
MOST_TOLD: Final = 500


class ServedControlPlane(Protocol):
    """The control plane in a process, which may have a journal to itself or share it with others."""

    @property
    def runtime(self) -> Runtime | None:
        """The runtime while this control plane is the leader, and otherwise None."""
        ...

    @property
    def leader(self) -> str:
        """The address at which the leader serves, or "" if there is no leader."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether this control plane is the leader or could take over immediately."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether this control plane will never be the leader again."""
        ...

    @property
    def changed(self) -> asyncio.Event:
        """An event that is set, and replaced with a new one, when any of the properties above changes."""
        ...

    def status(self, standby: Standby | None = None) -> ControlPlaneStatus:
        """Return the status of all control planes known to this one. `standby` is the caller, if it is a standby."""
        ...


async def serve_stream(
    served: ServedControlPlane,
    requests: AsyncIterator[SessionRequest],
    write: Callable[[SessionResponse], Awaitable[None]],
    max_outbox: int,
    *,
    job: Job | None = None,
) -> None:
    """Report which control plane is the leader until this one is, then serve a session as `serve_session` does."""
    while (runtime := served.runtime) is None:
        if served.is_closed:
            raise ControlPlaneUnavailable("the control plane was stopped")
        changed = served.changed
        await write(SessionResponse(not_leader=NotLeader(leader=served.leader)))
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT_SECONDS):
                await changed.wait()
    await serve_session(runtime, requests, write, max_outbox, job=job)


async def serve_session(
    runtime: Runtime,
    requests: AsyncIterator[SessionRequest],
    write: Callable[[SessionResponse], Awaitable[None]],
    max_outbox: int,
    *,
    job: Job | None = None,
) -> None:
    """Serve a session of `runtime` until it ends. Always raises ControlPlaneUnavailable, with the reason.

    `job` is the caller, or None if the caller is an agent or a control plane (`rights`). The session ends if more than
    `max_outbox` deltas and replies are waiting for `write`.
    """
    outbox = _Outbox(max_outbox, runtime.epoch)
    session = runtime.open_session(outbox, job=job)
    reader = asyncio.create_task(_read(runtime, requests, session, outbox, job))
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


def _of_job(job: Job, commands: Sequence[Command]) -> tuple[list[Command], list[Reply]]:
    """Return the commands that a job may send, attributed to the job, and the replies to the others."""
    refused = refusals(commands)
    ids = {each.command_id for each in refused}
    allowed = [each for each in commands if each.command_id not in ids]
    for command in allowed:
        command.principal = job.principal
    return allowed, refused


async def _read(
    runtime: Runtime,
    requests: AsyncIterator[SessionRequest],
    session: HostSession,
    outbox: "_Outbox",
    job: Job | None,
) -> None:
    """Pass requests to the session, as fast as the runtime decides them."""
    is_first = True
    try:
        async for request in requests:
            if is_first and (why := why_not(request.contract)):
                raise ControlPlaneUnavailable(f"this client is not compatible: {why}")
            is_first = False
            await runtime.room()
            if request.unsubscribe:
                session.unsubscribe(_keys(request.unsubscribe))
            if request.subscribe:
                session.subscribe(_keys(request.subscribe))
            commands: Sequence[Command] = request.commands
            if job is not None:
                commands, refused = _of_job(job, commands)
                if refused:
                    outbox.deliver((), (), refused, runtime.durable_position)
            if commands:
                session.submit(commands)
        outbox.lost(ControlPlaneUnavailable("the client has ended the session"))
    except ControlPlaneUnavailable as error:
        outbox.lost(error)
    except DecodeError:
        outbox.lost(
            ControlPlaneUnavailable("the client sent something other than a SessionRequest")
        )


def _keys(partitions: Sequence[TopicPartition]) -> list[PartitionKey]:
    return [key_of(partition) for partition in partitions]


class _Outbox:
    """The next messages of a session's stream, collected while the previous message is being sent.

    A message that contains `MOST_TOLD` items is not extended any further, so that its reader processes large amounts in
    small steps.
    """

    def __init__(self, max_items: int, epoch: int) -> None:
        self._max_items = max_items
        self._items = 0
        self._responses = deque((SessionResponse(contract=own_contract(), epoch=epoch),))
        self._told = 0  # the number of items in the last message
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
        items = len(partitions) + len(cluster) + len(replies)
        self._items += items
        if self._items > self._max_items:
            self._items = 0
            self._responses.clear()
            self.lost(ControlPlaneUnavailable("this client reads too slowly: connect again"))
            return
        if not self._responses or self._told >= MOST_TOLD:
            self._responses.append(SessionResponse())
            self._told = 0
        response = self._responses[-1]
        response.partitions.extend(partitions)
        response.cluster.extend(cluster)
        response.replies.extend(replies)
        response.journal_position = position
        self._told += items
        self._wake.set()

    def beat(self) -> None:
        """Send an empty message as a sign of life, since clients look for another leader after a silence."""
        self._wake.set()

    def lost(self, error: ControlPlaneUnavailable) -> None:
        self._lost = error
        self._wake.set()

    async def take(self) -> SessionResponse:
        """Wait for the next message, which may be empty. Raises ControlPlaneUnavailable after the last one."""
        await self._wake.wait()
        if not self._items and self._lost is not None:
            raise self._lost
        response = self._responses.popleft() if self._responses else SessionResponse()
        self._items -= len(response.partitions) + len(response.cluster) + len(response.replies)
        if not self._responses and self._lost is None:
            self._wake.clear()
        return response
