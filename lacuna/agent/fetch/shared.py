"""Reads that the agents in a zone share: an agent gets ranges that another agent has read (adr/0039).

An agent that lacks a range requests it from the owner of its chunk, which reads the bucket for all agents. An owner
never forwards a request. An agent that gets no timely answer reads the bucket itself.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lacuna.agent.fetch.buffers import LiveBytes, ReadBuffer
from lacuna.agent.fetch.chunks import ChunkCache, ChunkId, ChunksBusyError
from lacuna.agent.fetch.loading import LoadPlan
from lacuna.agent.fetch.peer_requests import ConnectionCounts
from lacuna.agent.fetch.zone import Zone
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.logstore.objects.store import ObjectStoreError, RangeRead, WritableBuffer, copy_parts
from lacuna.logstore.segments.paths import MAX_LEASE_ID, MAX_SEQUENCE, key_in_lease
from lacuna.wire.peers import ReadChunkRequest, ReadChunkResponse

log = logging.getLogger("lacuna.agent.fetch")


@dataclass(slots=True, kw_only=True)
class SharedMetrics:
    """Counters of the ranges received from other agents, requested from them without success, sent to them, and denied
    to them.

    `damaged` counts ranges that were damaged on arrival but intact in the bucket.
    """

    taken: int = 0
    missed: int = 0
    given: int = 0
    refused: int = 0
    damaged: int = 0


@dataclass(slots=True)
class Brought:
    """The outcome of each read in a load, by index: an error, or None if the range is in the buffer.

    `givers` holds the other agents that sent ranges, by the same index.
    """

    outcomes: dict[int, ObjectStoreError | None] = field(default_factory=dict)
    givers: dict[int, Agent] = field(default_factory=dict)


class SharedReads:
    """The reads that one agent performs for its zone, and the ranges that it gets from other agents in the zone.

    Unsent answers to other agents take up at most `max_answer_bytes` of memory, unless there is only one.
    """

    def __init__(
        self,
        zone: Zone,
        chunks: ChunkCache,
        cluster_id: Callable[[], str],
        *,
        max_answer_bytes: int,
    ) -> None:
        self.metrics = SharedMetrics()
        self.chunks = chunks
        self._zone = zone
        self._cluster_id = cluster_id
        self._max_answer_bytes = max_answer_bytes
        #: The bytes of answers being prepared, and of completed answers that have not been sent yet.
        self._promised = 0
        self._answers = LiveBytes()

    @property
    def is_shared(self) -> bool:
        """Whether there is another agent to share reads with. If not, nothing is kept for others."""
        if self._zone.has_others:
            return True
        if self.chunks.bytes_now:
            self.chunks.clear()
        return False

    @property
    def outside_bytes(self) -> int:
        """The bytes being read, received from other agents, or sent to them, not counting the kept chunks."""
        return self.chunks.bytes_reading + self._zone.bytes_under_way + self._answer_bytes

    @property
    def _answer_bytes(self) -> int:
        return self._promised + self._answers.total

    async def bring(self, plan: LoadPlan, buffer: WritableBuffer) -> Brought:
        """Perform as many of the plan's reads as possible through the zone, into a `buffer` of the plan's size."""
        deadline = asyncio.get_running_loop().time() + self._zone.patience
        brought = Brought()
        await asyncio.gather(
            *(self._bring(plan, at, buffer, brought, deadline) for at in range(len(plan.reads)))
        )
        return brought

    def connections(self) -> ConnectionCounts:
        return self._zone.connections()

    async def serve(self, request: ReadChunkRequest, *, is_peer: bool = False) -> ReadChunkResponse:
        """Answer another agent from this agent's chunks. `is_peer` means that the caller is known to be an agent."""
        if error_code := self._refusal(request, is_peer):
            self.metrics.refused += 1
            return ReadChunkResponse(error_code)
        self._promised += request.size
        try:
            chunk = self._chunk((request.lease_id, request.sequence), request.position)
            # A copy, since it may take long to send, and a slice would hold the whole chunk in memory.
            answer = ReadBuffer(await self._own(chunk, request.position, request.size))
        except ChunksBusyError:
            self.metrics.refused += 1
            return ReadChunkResponse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        except ObjectStoreError:
            return ReadChunkResponse(
                ErrorCode.KAFKA_STORAGE_ERROR
            )  # the agent finds out the reason itself
        finally:
            self._promised -= request.size
        self._answers.watch(answer, len(answer))
        self.metrics.given += 1
        return ReadChunkResponse(data=(answer,))

    def report_damaged(self, plan: LoadPlan, brought: Brought, which: Sequence[int]) -> None:
        """Report these reads as damaged in transfer, and drop this agent's copies of their bytes."""
        self.metrics.damaged += len(which)
        for at in which:
            read, segment = plan.reads[at], _segment_of(plan, at)
            giver = brought.givers.get(at)
            if giver is None:
                self.chunks.forget(self._chunk(segment, read.position))
            log.error(
                "object %r: %d bytes at position %d were damaged %s, but were intact when this "
                "agent read them from the bucket",
                read.key,
                read.size,
                read.position,
                "in this agent's copy for its zone"
                if giver is None
                else f"when agent {giver.node_id} at {giver.host}:{giver.port} sent them",
            )

    def hang_up(self) -> None:
        """Close the connections to other agents."""
        self._zone.close()

    async def close(self) -> None:
        """Close the connections to other agents, and wait for the reads under way."""
        self.hang_up()
        await self.chunks.close()

    async def _bring(
        self, plan: LoadPlan, at: int, buffer: WritableBuffer, brought: Brought, deadline: float
    ) -> None:
        """Perform one of the plan's reads through the zone, or leave it to the load if the deadline passes."""
        read = plan.reads[at]
        if not self.chunks.takes(read.position, read.size):
            return
        segment = _segment_of(plan, at)
        chunk = self._chunk(segment, read.position)
        agent = self._zone.owner(chunk.placement_key)
        try:
            if agent is None:
                is_brought = await self._bring_own(chunk, read, buffer, deadline)
            else:
                is_brought = await self._bring_from(agent, segment, read, buffer, deadline)
        except ObjectStoreError as error:
            brought.outcomes[at] = error
            return
        if is_brought:
            brought.outcomes[at] = None
            if agent is not None:
                brought.givers[at] = agent

    async def _bring_own(
        self, chunk: ChunkId, read: RangeRead, buffer: WritableBuffer, deadline: float
    ) -> bool:
        """Copy a range from one of this agent's chunks if it is available by the deadline. Raises ObjectStoreError."""
        try:
            async with asyncio.timeout_at(deadline):
                data = await self._own(chunk, read.position, read.size)
        except (ChunksBusyError, TimeoutError):
            return False
        copy_parts(read, data, buffer)
        return True

    async def _bring_from(
        self,
        agent: Agent,
        segment: tuple[int, int],
        read: RangeRead,
        buffer: WritableBuffer,
        deadline: float,
    ) -> bool:
        """Copy a range from another agent if it arrives by the deadline."""
        request = ReadChunkRequest(
            self._zone.secret, self._cluster_id(), *segment, read.position, read.size
        )
        data = await self._zone.ask(agent, request, deadline)
        if data is None:
            self.metrics.missed += 1
            return False
        copy_parts(read, data, buffer)
        self.metrics.taken += 1
        return True

    async def _own(self, chunk: ChunkId, position: int, size: int) -> memoryview:
        key = key_in_lease(self._cluster_id(), chunk.lease_id, chunk.sequence)
        return await self.chunks.get(chunk, key, position, size)

    def _chunk(self, segment: tuple[int, int], position: int) -> ChunkId:
        return ChunkId(*segment, position // self.chunks.chunk_bytes)

    def _refusal(self, request: ReadChunkRequest, is_peer: bool) -> int:
        """Return an error code, or NONE. Only agents may request ranges, and only of segments of this cluster."""
        secret = self._zone.secret
        if not is_peer and not (secret and hmac.compare_digest(request.peer_secret, secret)):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if request.cluster_id != self._cluster_id():
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if (
            not 0 <= request.lease_id <= MAX_LEASE_ID
            or not 0 <= request.sequence <= MAX_SEQUENCE
            or not self.chunks.takes(request.position, request.size)
            or not self._zone.has_others
        ):
            return ErrorCode.INVALID_REQUEST
        used = self._answer_bytes
        is_busy = used > 0 and used + request.size > self._max_answer_bytes
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_busy else ErrorCode.NONE


def _segment_of(plan: LoadPlan, at: int) -> tuple[int, int]:
    piece = plan.pieces[plan.source(at)[0]]
    return piece.lease_id, piece.sequence
