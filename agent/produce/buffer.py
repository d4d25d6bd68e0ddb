"""Batches that wait for their flush, in the order in which they came (S12); no I/O.

What is in memory is bounded by the server: it reads no further while the requests that it has not
answered take `max_agent_bytes`, and a request is not answered before its batches have a verdict.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from agent.produce.recompress import Recompression
from controlplane.errors import ErrorCode

NO_PRODUCER_ID: Final = -1

PartitionKey: TypeAlias = tuple[bytes, int]
#: producer id, topic id, partition: what keeps an order of its own.
ProducerKey: TypeAlias = tuple[int, bytes, int]


class Verdict(NamedTuple):
    """What became of a batch; -1 where Kafka has -1. `error_message` says more where there is more."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class RequestTicket:
    """Counts the batches of one request that have no verdict; `done` is set when all have one."""

    __slots__ = ("_left", "done")

    def __init__(self, count: int) -> None:
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def count_down(self) -> None:
        """One more has its verdict."""
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


@dataclass(slots=True, kw_only=True, eq=False)
class PendingBatch:
    """One checked batch on its way. `part` is its bytes: mostly a view of the request that sent it.

    `flags` are those of a commit (controlplane/batches.py), but for the transactional id. `transactional_id` is that
    of the request where the batch is transactional, else empty. `recompression`
    is to be applied to `part` before the batch is queued.
    """

    key: PartitionKey
    part: memoryview | bytes
    record_count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    flags: int
    transactional_id: str = ""
    recompression: Recompression | None = None
    ticket: RequestTicket | None = None
    verdict: Verdict | None = None

    @property
    def producer_key(self) -> ProducerKey:
        """Whose order it belongs to."""
        return (self.producer_id, *self.key)

    def settle(self, verdict: Verdict) -> None:
        """Give the verdict; the first one counts."""
        if self.verdict is None:
            self.verdict = verdict
            if self.ticket is not None:
                self.ticket.count_down()


class ProduceBuffer:
    """The queue in front of the flushes."""

    def __init__(self) -> None:
        self._batches: deque[PendingBatch] = deque()
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batches: Iterable[PendingBatch]) -> None:
        """Queue batches, in order."""
        for batch in batches:
            self._batches.append(batch)
            self.queued_bytes += len(batch.part)

    def take(self, max_bytes: int) -> list[PendingBatch]:
        """The next flush's batches: from the front up to `max_bytes`, at least one if there is one."""
        taken: list[PendingBatch] = []
        size = 0
        while self._batches and (not taken or size + len(self._batches[0].part) <= max_bytes):
            batch = self._batches.popleft()
            size += len(batch.part)
            taken.append(batch)
        self.queued_bytes -= size
        return taken

    def remove(self, failed: set[ProducerKey]) -> list[PendingBatch]:
        """Take out the queued batches of these producers and partitions (S12)."""
        removed = [batch for batch in self._batches if batch.producer_key in failed]
        if removed:
            self._batches = deque(
                batch for batch in self._batches if batch.producer_key not in failed
            )
            self.queued_bytes -= sum(len(batch.part) for batch in removed)
        return removed


def ordered_producers(batches: Iterable[PendingBatch]) -> set[ProducerKey]:
    """The producers and partitions among `batches` whose order the client counts on."""
    return {batch.producer_key for batch in batches if batch.producer_id != NO_PRODUCER_ID}


NOT_PERSISTED: Final = Verdict(6)
"""NOT_LEADER_OR_FOLLOWER: all clients refresh, retry and know that nothing was written."""
STORE_FAILED: Final = Verdict(56)
"""KAFKA_STORAGE_ERROR: the same, and it says what the matter is."""
MAYBE_PERSISTED: Final = Verdict(ErrorCode.REQUEST_TIMED_OUT)
"""All clients retry; an idempotent one gets its first answer if the batch was committed."""
