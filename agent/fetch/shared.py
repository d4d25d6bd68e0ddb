"""Reads that the agents of a zone share: what one has read, the others get from it (adr/0039).

Whoever misses a range asks the owner of its chunk, which reads the bucket for all. An owner never asks on. Who gets no
answer soon reads the bucket itself, as if it were alone.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lacuna.agent.fetch.chunks import ChunkCache, ChunkId
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.objects.store import ObjectStoreError
from lacuna.logstore.segments.paths import MAX_LEASE_ID, MAX_SEQUENCE, key_in_lease
from lacuna.wire.peers import ReadChunkRequest, ReadChunkResponse

if TYPE_CHECKING:
    from lacuna.agent.fetch.loading import LoadPlan
    from lacuna.agent.zone import Zone
    from lacuna.logstore.objects.store import RangeRead

log = logging.getLogger("lacuna.agent.fetch")

_MOST_ANSWERS: Final = 64


@dataclass(slots=True, kw_only=True)
class SharedMetrics:
    """Counters: ranges from other agents and their bytes, those asked for in vain, and those given to others.

    `damaged` counts ranges, from others or from this agent's chunks, whose bytes were wrong and that were read again.
    """

    taken: int = 0
    bytes_taken: int = 0
    missed: int = 0
    given: int = 0
    bytes_given: int = 0
    refused: int = 0
    damaged: int = 0


class SharedReads:
    """What one agent reads for its zone, and gets from it. `patience` is how long a load waits for others, in seconds.

    At most 64 answers are under way, and no more bytes than `max_answer_bytes` of what the chunk cache has dropped.
    """

    def __init__(
        self,
        zone: "Zone",
        chunks: ChunkCache,
        cluster_id: Callable[[], str],
        *,
        patience: float,
        max_answer_bytes: int,
    ) -> None:
        self.metrics = SharedMetrics()
        self.chunks = chunks
        self._zone = zone
        self._cluster_id = cluster_id
        self._patience = patience
        self._max_answer_bytes = max_answer_bytes
        self._answers_now = 0

    @property
    def is_shared(self) -> bool:
        """Whether there is anybody to share with; if not, nothing is kept for others."""
        if self._zone.has_others:
            return True
        if self.chunks.bytes_now:
            self.chunks.clear()
        return False

    async def bring(self, plan: "LoadPlan") -> dict[int, memoryview]:
        """Return the bytes of those of the plan's reads that the zone has or reads, by their indexes."""
        deadline = asyncio.get_running_loop().time() + self._patience
        found = await asyncio.gather(
            *(
                self._bring(read, plan.pieces[plan.source(at)[0]][:2], deadline)
                for at, read in enumerate(plan.reads)
            )
        )
        return {at: data for at, data in enumerate(found) if data is not None}

    async def serve(self, request: ReadChunkRequest) -> ReadChunkResponse:
        """Answer another agent, from this agent's chunks alone."""
        if error_code := self._refusal(request):
            self.metrics.refused += 1
            return ReadChunkResponse(error_code)
        self._answers_now += 1
        try:
            segment = (request.lease_id, request.sequence)
            data = await self._own(segment, request.position, request.size)
        except ObjectStoreError:
            return ReadChunkResponse(ErrorCode.KAFKA_STORAGE_ERROR)  # it finds out why by itself
        finally:
            self._answers_now -= 1
        self.metrics.given += 1
        self.metrics.bytes_given += len(data)
        return ReadChunkResponse(data=(data,))

    def report_damaged(self, plan: "LoadPlan", damaged: Sequence[int]) -> None:
        """Note that what was brought for these reads of the plan was wrong, and forget it if it is here."""
        self.metrics.damaged += len(damaged)
        for at in damaged:
            piece = plan.pieces[plan.source(at)[0]]
            chunk = self._chunk(piece[:2], piece.position)
            self.chunks.forget(chunk)
            log.error(
                "bytes of chunk %d of segment %s were damaged when they came from this zone's cache, and were read "
                "from the bucket again",
                chunk.number,
                piece.segment,
            )

    def hang_up(self) -> None:
        """Close the connections to other agents."""
        self._zone.close()

    async def close(self) -> None:
        """Close the connections to other agents, and wait for the reads under way."""
        self.hang_up()
        await self.chunks.close()

    async def _bring(
        self, read: "RangeRead", segment: tuple[int, int], deadline: float
    ) -> memoryview | None:
        if not self.chunks.takes(read.position, read.size):
            return None
        agent = self._zone.owner(self._chunk(segment, read.position).placement_key)
        if agent is None:
            try:
                return await self._own(segment, read.position, read.size)
            except ObjectStoreError:
                return None  # the load reads it again, and reports what is wrong
        request = ReadChunkRequest(
            self._zone.secret, self._cluster_id(), *segment, read.position, read.size
        )
        data = await self._zone.ask(agent, request, deadline)
        if data is None:
            self.metrics.missed += 1
            return None
        self.metrics.taken += 1
        self.metrics.bytes_taken += len(data)
        return data

    def _own(self, segment: tuple[int, int], position: int, size: int) -> Awaitable[memoryview]:
        key = key_in_lease(self._cluster_id(), *segment)
        return self.chunks.get(self._chunk(segment, position), key, position, size)

    def _chunk(self, segment: tuple[int, int], position: int) -> ChunkId:
        return ChunkId(*segment, position // self.chunks.chunk_bytes)

    def _refusal(self, request: ReadChunkRequest) -> int:
        """Return why a request is not served, or NONE. Only agents are given ranges of segments of this cluster."""
        secret = self._zone.secret
        if not secret or not hmac.compare_digest(request.peer_secret, secret):
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
        is_busy = (
            self._answers_now >= _MOST_ANSWERS
            or self.chunks.outside_bytes >= self._max_answer_bytes
        )
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_busy else ErrorCode.NONE
