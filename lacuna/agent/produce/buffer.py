"""Batches waiting for their flush, in the order of their arrival (S12). Does no I/O.

The server bounds their memory: it stops reading while unanswered requests take up `max_agent_bytes`, and a request is
not answered before its batches have a verdict.
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
#: The maximum number of batches in a flush. One step of the event loop lays them out, and the control plane decides
#: their commit in one step.
MOST_OF_FLUSH: Final = 2000

#: Producer id, producer epoch and partition. Batches with the same key must keep their order; a producer's sequences
#: restart with each epoch.
ProducerKey: TypeAlias = tuple[int, int, PartitionKey]


class Verdict(NamedTuple):
    """The outcome of one batch. Values that do not apply are -1, as in Kafka."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class RequestTicket:
    """Counts the batches of a request that have no verdict yet. `done` completes when there are none left."""

    __slots__ = ("_left", "done")

    def __init__(self, count: int) -> None:
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def count_down(self) -> None:
        """Count one batch as settled."""
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


class LateCheck(NamedTuple):
    """The check of a large batch. `check` takes so long that it runs in a thread, and `refuse` receives its error."""

    check: "Callable[[], PendingBatch]"
    refuse: Callable[[RecordsError], None]


@dataclass(slots=True, kw_only=True, eq=False)
class PendingBatch:
    """A batch that is waiting for its verdict. `part` contains its bytes, usually as a view of its request.

    `flags` are the flags of a commit (controlplane/shared/batches.py) without the transactional id. `transactional_id`
    is the request's if the batch is transactional, else "". Before the batch is queued, `late_check` runs if there is
    one, and `recompression` is then applied to `part` if there is one. Until `late_check` has run, only the batch's
    header has been read.
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
        """The producer and partition within which batches must keep their order."""
        return (self.producer_id, self.producer_epoch, self.key)

    def settle(self, verdict: Verdict) -> None:
        """Set the verdict, and report the batch to its ticket as settled. Only the first call has an effect."""
        if self.verdict is None:
            self.verdict = verdict
            if self.ticket is not None:
                self.ticket.count_down()


class ProduceBuffer:
    """The queue of batches waiting for a flush. `queued_bytes` is their total size."""

    def __init__(self) -> None:
        self._batches: deque[PendingBatch] = deque()
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batches: Iterable[PendingBatch]) -> None:
        for batch in batches:
            self._batches.append(batch)
            self.queued_bytes += len(batch.part)

    def take(self, max_bytes: int) -> list[PendingBatch]:
        """Take the batches for the next flush from the front of the queue, at least one if the queue is not empty.

        Takes at most `max_bytes` in total, and at most MOST_OF_FLUSH batches.
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
    """Return the producer keys of the batches that have a producer id, since clients rely on their order."""
    return {batch.producer_key for batch in batches if batch.producer_id != NO_PRODUCER_ID}


NOT_PERSISTED: Final = Verdict(6)
"""NOT_LEADER_OR_FOLLOWER: all clients refresh their metadata and retry, and know that nothing was written."""
STORE_FAILED: Final = Verdict(56)
"""KAFKA_STORAGE_ERROR: clients also refresh their metadata and retry, and the code names the cause."""
MAYBE_PERSISTED: Final = Verdict(ErrorCode.REQUEST_TIMED_OUT)
"""REQUEST_TIMED_OUT: all clients retry. If the batch was committed, an idempotent client gets the original answer."""
