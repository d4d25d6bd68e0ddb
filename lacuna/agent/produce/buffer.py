"""Batches that wait for their flush, in the order of their arrival (S12); no I/O.

The server bounds their memory. It stops reading while unanswered requests take `max_agent_bytes`, and a request is not
answered before its batches have a verdict.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from lacuna.agent.produce.recompress import Recompression
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.records.errors import RecordsError

NO_PRODUCER_ID: Final = -1
#: The most batches of a flush. One step of the event loop lays them out, and the control plane decides their commit in
#: one step.
MOST_OF_FLUSH: Final = 2000

#: Producer id, producer epoch and partition. Batches with the same key must keep their order; a producer's sequences
#: restart with each epoch.
ProducerKey: TypeAlias = tuple[int, int, PartitionKey]


class Verdict(NamedTuple):
    """The outcome of one batch, with -1 for values that it lacks, as in Kafka."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class RequestTicket:
    """Counts the batches of one request that have no verdict yet; `done` completes when all have one."""

    __slots__ = ("_left", "done")

    def __init__(self, count: int) -> None:
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def count_down(self) -> None:
        """Count one more batch as settled."""
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


class LateCheck(NamedTuple):
    """The check of a large batch: `check` takes long and runs in a thread; `refuse` receives its error."""

    check: "Callable[[], PendingBatch]"
    refuse: Callable[[RecordsError], None]


@dataclass(slots=True, kw_only=True, eq=False)
class PendingBatch:
    """One checked batch that waits for its verdict. `part` is its bytes, usually a view of its request.

    `flags` are the flags of a commit (controlplane/shared/batches.py) without the transactional id. `transactional_id`
    is the request's if the batch is transactional, else "". `recompression`, if any, must be applied to `part` before
    the batch is queued. `late_check`, if any, runs before that; until then, only the batch's header has been read.
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
    late_check: LateCheck | None = None
    ticket: RequestTicket | None = None
    verdict: Verdict | None = None

    @property
    def producer_key(self) -> ProducerKey:
        """The key of the producer and partition within which the batch must keep its order."""
        return (self.producer_id, self.producer_epoch, self.key)

    def settle(self, verdict: Verdict) -> None:
        """Set the verdict, and count the batch down on its ticket. Only the first call has an effect."""
        if self.verdict is None:
            self.verdict = verdict
            if self.ticket is not None:
                self.ticket.count_down()


class ProduceBuffer:
    """The queue of batches that wait for a flush. `queued_bytes` is their total size."""

    def __init__(self) -> None:
        self._batches: deque[PendingBatch] = deque()
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batches: Iterable[PendingBatch]) -> None:
        """Append batches to the queue, in order."""
        for batch in batches:
            self._batches.append(batch)
            self.queued_bytes += len(batch.part)

    def take(self, max_bytes: int) -> list[PendingBatch]:
        """Take the batches of the next flush from the front: at least one if there is one.

        They have at most `max_bytes`, and number at most MOST_OF_FLUSH.
        """
        taken: list[PendingBatch] = []
        size = 0
        while self._batches and (not taken or size + len(self._batches[0].part) <= max_bytes):
            if len(taken) == MOST_OF_FLUSH:
                break
            batch = self._batches.popleft()
            size += len(batch.part)
            taken.append(batch)
        self.queued_bytes -= size
        return taken

    def remove(self, failed: set[ProducerKey]) -> list[PendingBatch]:
        """Remove and return the queued batches with these producer keys (S12)."""
        removed = [batch for batch in self._batches if batch.producer_key in failed]
        if removed:
            self._batches = deque(
                batch for batch in self._batches if batch.producer_key not in failed
            )
            self.queued_bytes -= sum(len(batch.part) for batch in removed)
        return removed


def ordered_producers(batches: Iterable[PendingBatch]) -> set[ProducerKey]:
    """Return the producer keys of the batches that have a producer id, since clients rely on the order of these."""
    return {batch.producer_key for batch in batches if batch.producer_id != NO_PRODUCER_ID}


NOT_PERSISTED: Final = Verdict(6)
"""NOT_LEADER_OR_FOLLOWER: all clients refresh their metadata and retry, and know that nothing was written."""
STORE_FAILED: Final = Verdict(56)
"""KAFKA_STORAGE_ERROR: clients do the same, and the code names the cause."""
MAYBE_PERSISTED: Final = Verdict(ErrorCode.REQUEST_TIMED_OUT)
"""REQUEST_TIMED_OUT: all clients retry; an idempotent one gets its first answer if the batch was committed."""
