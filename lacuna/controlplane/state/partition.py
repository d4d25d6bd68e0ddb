"""The durable state of a partition: offsets, extents, dead ranges, idempotence windows, ongoing transactions."""

import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.history import History
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.shared.partitions import PartitionKey, named
from lacuna.controlplane.state.settings import SHOWN_EXTENTS
from lacuna.controlplane.v1.log_pb2 import PartitionDelta

REMEMBERED_BATCHES: Final = 5  # as Kafka's producers assume: at most five batches in flight


#: The numbers remembered for each batch: base sequence, last sequence, base offset, append time (-1 unless
#: LogAppendTime). The first two identify a repeated batch, and the others make up its answer.
BATCH_NUMBERS: Final = 4
_MOST_NUMBERS: Final = REMEMBERED_BATCHES * BATCH_NUMBERS


NO_SEQUENCE: Final = -1


class ProducerWindow:
    """The idempotence window of a producer id in a partition (S10). `batches` has BATCH_NUMBERS per batch, oldest
    first.
    """

    __slots__ = (
        "batches",
        "key",
        "last_timestamp",
        "last_used_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, key: PartitionKey, producer_id: int, producer_epoch: int) -> None:
        self.key = key
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: array[int] = array("q")
        self.last_timestamp = -1
        self.last_used_ms = -1  # in no minute, even if the clock begins at 0

    @property
    def last_sequence(self) -> int:
        """The last sequence of the newest batch of this epoch, or NO_SEQUENCE without batches."""
        return self.batches[1 - BATCH_NUMBERS] if self.batches else NO_SEQUENCE

    def remember(self, producer_epoch: int, batch: Iterable[int]) -> None:
        """Add a batch, given as its numbers. A new epoch drops all earlier batches, and a full window drops the oldest
        one.
        """
        batches = self.batches
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            del batches[:]
        batches.extend(batch)
        if len(batches) > _MOST_NUMBERS:
            del batches[:BATCH_NUMBERS]

    def end_transaction(self, producer_epoch: int, now_ms: int) -> None:
        """Apply a transaction marker with this epoch as Kafka does: a higher epoch drops all batches (KIP-890)."""
        self.last_timestamp = now_ms
        self.remember(producer_epoch, ())


class Partition:
    """The durable state of one partition. Only replay changes it."""

    __slots__ = (
        "compact_again_ms",
        "compacted_to",
        "dead",
        "extents",
        "high_watermark",
        "history",
        "key",
        "log_start_offset",
        "message",
        "next_epoch",
        "ongoing",
        "producers",
        "settled_ms",
        "size_bytes",
        "vacated_to",
        "version",
    )

    def __init__(self, key: PartitionKey, history: History) -> None:
        self.key = key
        self.history = history
        #: The maximum number of entries in the history, checked for every slice.
        self.settled_ms = history.settled_ms
        self.message = named(key)
        self.version = 1
        self.log_start_offset = 0
        self.high_watermark = 0
        self.extents = ExtentTable()
        self.dead = DeadRanges()
        self.size_bytes = 0
        #: The offset up to which keys have been compacted, and when it is useful to compact again (0 for never).
        self.compacted_to = 0
        self.compact_again_ms = 0
        #: All records missing between the log start and this offset were not live when they were removed (see
        #: front.py).
        self.vacated_to = 0
        #: 1 + the last imported batch's leader epoch in its source, or 0 if unknown. It shows whether the source lost
        #: records.
        self.next_epoch = 0
        self.producers: dict[int, ProducerWindow] = {}
        #: producer id -> first offset of its ongoing transaction in this partition, ordered by offset. An OrderedDict
        #: finds the first immediately, whereas a dict would skip all entries removed before it.
        self.ongoing: OrderedDict[int, int] = OrderedDict()

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest ongoing transaction, or the high watermark if there is none (S3).

        It is never below the log start.
        """
        if not self.ongoing:
            return self.high_watermark
        return max(next(iter(self.ongoing.values())), self.log_start_offset)

    def stable_at(self, time_ms: int) -> int:
        """Return a last stable offset that the partition had reached by a past time, or 0 if none is known."""
        second = time_ms // 1000
        if second < self.history.known_from():
            return 0
        return self.history.at(second, self.last_stable_offset)

    def note_stable(self, now_ms: int) -> None:
        """Record the last stable offset in the history before it changes."""
        if now_ms >= self.settled_ms:
            self.history.note(self.last_stable_offset, now_ms)
            self.settled_ms = self.history.settled_ms

    def move_log_start(self, offset: int) -> None:
        """Move the log start. Raises InvariantBroken if it would move back or past the end of the log."""
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise InvariantBroken(
                f"the log start would move from {self.log_start_offset} to {offset}, which is "
                f"outside the log (it ends at {self.high_watermark})"
            )
        self.log_start_offset = offset
        self.history.drop_below(offset)

    def kill(self, ranges: "array[int]") -> "array[int]":
        """Mark the ranges (first, end, first, end, …) as dead, except those below the log start. Return the marked
        ranges.
        """
        first = 0
        while first < len(ranges) and ranges[first + 1] <= self.log_start_offset:
            first += 2
        if first:
            ranges = ranges[first:]
        self.dead.add_all(ranges)
        return ranges

    def delta(self) -> PartitionDelta:
        """Return a delta from the previous version to the current one, which contains only the offsets."""
        version = self.version
        return PartitionDelta(
            partition=self.message,
            from_version=version - 1,
            version=version,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            vacated_to=max(self.vacated_to, self.compacted_to),
        )

    def snapshot_delta(self) -> PartitionDelta:
        """Return a delta that replaces a watcher's state with the newest extents."""
        delta = self._part(len(self.extents), sys.maxsize)
        delta.from_version = 0
        delta.is_snapshot = True
        return delta

    def older_delta(self, below: int) -> PartitionDelta:
        """Return a delta with the newest extents that begin below `below`, for a watcher that has all others."""
        delta = self._part(self.extents.first_at_or_after(below), below)
        delta.from_version = delta.version
        delta.is_older = True
        return delta

    def _part(self, stop: int, below: int) -> PartitionDelta:
        """Return a delta with up to SHOWN_EXTENTS extents before the index `stop`, and their dead ranges."""
        start = max(0, stop - SHOWN_EXTENTS)
        delta = self.delta()
        if start:
            delta.older_below = self.extents.base_offsets[start]
        delta.extents.CopyFrom(self.extents.columns(start, stop))
        delta.dead = self.dead.within(delta.older_below, below).pairs()
        return delta


def history_of(key: PartitionKey, settled_ms: int) -> History:
    """Return an empty history for a partition whose last stable offset has been known since `settled_ms`."""
    return History(settled_ms, spread_of(key))


def spread_of(key: PartitionKey) -> int:
    """Return a number that varies by partition, so that not all histories are thinned at the same time."""
    return key[0][-1] + key[1]


def deleted_delta(key: PartitionKey) -> PartitionDelta:
    """Return a delta for the watchers of a partition that does not exist."""
    return PartitionDelta(partition=named(key), is_snapshot=True, is_deleted=True)
