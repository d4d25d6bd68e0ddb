"""One partition: its offsets, extents, dead ranges, idempotence windows and ongoing transactions."""

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from controlplane.extents import DeadRanges, ExtentTable
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.log_pb2 import PartitionDelta

#: (topic id, partition index)
PartitionKey = tuple[bytes, int]

REMEMBERED_BATCHES: Final = 5  # as Kafka's producers assume: at most five batches in flight


def key_of(partition: TopicPartition) -> PartitionKey:
    """The dictionary key of a message's partition."""
    return partition.topic_id, partition.partition


#: Numbers that are remembered of a batch: base sequence, last sequence, base offset, append time (-1
#: unless LogAppendTime). A duplicate is known by the first two and answered with the others.
BATCH_NUMBERS: Final = 4
_MOST_NUMBERS: Final = REMEMBERED_BATCHES * BATCH_NUMBERS


class ProducerWindow:
    """The last batches of one producer id in one partition (S10): their numbers, the oldest first."""

    __slots__ = ("batches", "last_timestamp", "last_used_ms", "producer_epoch")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches: array[int] = array("q")
        self.last_timestamp = -1
        self.last_used_ms = -1  # before the first hour, also of a clock that begins at 0

    @property
    def last_sequence(self) -> int:
        """Of the newest batch."""
        return self.batches[1 - BATCH_NUMBERS]

    def remember(self, producer_epoch: int, batch: Iterable[int]) -> None:
        """Adds a batch; a new epoch forgets the batches of the old one."""
        batches = self.batches
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            del batches[:]
        batches.extend(batch)
        if len(batches) > _MOST_NUMBERS:
            del batches[:BATCH_NUMBERS]


class Partition:
    """Durable state of one partition. Only replay changes it."""

    __slots__ = (
        "compact_again_ms",
        "compacted_to",
        "dead",
        "extents",
        "high_watermark",
        "key",
        "log_start_offset",
        "message",
        "ongoing",
        "producers",
        "size_bytes",
        "version",
    )

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.message = TopicPartition(topic_id=key[0], partition=key[1])
        self.version = 1
        self.log_start_offset = 0
        self.high_watermark = 0
        self.extents = ExtentTable()
        self.dead = DeadRanges()
        self.size_bytes = 0
        #: What was compacted by key ends here, and the time from which it is worth it again (0: none).
        self.compacted_to = 0
        self.compact_again_ms = 0
        self.producers: dict[int, ProducerWindow] = {}
        #: producer id -> first offset of its ongoing transaction here, in the order of the offsets.
        #: Linked, so that the first is found at once however many were taken out before it.
        self.ongoing: OrderedDict[int, int] = OrderedDict()

    @property
    def last_stable_offset(self) -> int:
        """S3: the first offset of the oldest ongoing transaction, else HW; never behind the log
        start.
        """
        if not self.ongoing:
            return self.high_watermark
        return max(next(iter(self.ongoing.values())), self.log_start_offset)

    def kill(self, ranges: "array[int]") -> "array[int]":
        """Makes first, end, first, end, … dead unless they are deleted; returns what became dead."""
        first = 0
        while first < len(ranges) and ranges[first + 1] <= self.log_start_offset:
            first += 2
        if first:
            ranges = ranges[first:]
        self.dead.add_all(ranges)
        return ranges

    def delta(self) -> PartitionDelta:
        """A delta from the version before the current one, with nothing but the offsets in it."""
        version = self.version
        return PartitionDelta(
            partition=self.message,
            from_version=version - 1,
            version=version,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
        )

    def snapshot_delta(self) -> PartitionDelta:
        """The delta that replaces everything a watcher holds."""
        delta = self.delta()
        delta.from_version = 0
        delta.is_snapshot = True
        delta.extents.CopyFrom(self.extents.columns())
        delta.dead = self.dead.pairs()
        return delta


def deleted_delta(key: PartitionKey) -> PartitionDelta:
    """What a watcher of a partition that is not there gets."""
    partition = TopicPartition(topic_id=key[0], partition=key[1])
    return PartitionDelta(partition=partition, is_snapshot=True, is_deleted=True)
