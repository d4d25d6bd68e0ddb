"""One partition: its offsets, extents, dead ranges, idempotence windows and ongoing transactions."""

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from controlplane.extents import DeadRanges, ExtentTable
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.log_pb2 import PartitionDelta

#: (topic id, partition index)
PartitionKey = tuple[bytes, int]

REMEMBERED_BATCHES = 5  # as Kafka's producers assume: at most five batches in flight


def key_of(partition: TopicPartition) -> PartitionKey:
    """The dictionary key of a message's partition."""
    return partition.topic_id, partition.partition


class RememberedBatch(NamedTuple):
    """What a duplicate is known by, and its first answer."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    append_time: int  # -1 unless LogAppendTime


class ProducerWindow:
    """The last batches of one producer id in one partition (S10)."""

    __slots__ = ("batches", "last_timestamp", "last_used_ms", "producer_epoch")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches: list[RememberedBatch] = []
        self.last_timestamp = -1
        self.last_used_ms = -1  # before the first hour, also of a clock that begins at 0

    def remember(self, producer_epoch: int, batch: RememberedBatch) -> None:
        """Adds a batch; a new epoch forgets the batches of the old one."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = [batch]
            return
        self.batches.append(batch)
        if len(self.batches) > REMEMBERED_BATCHES:
            del self.batches[0]


class Partition:
    """Durable state of one partition. Only replay changes it."""

    __slots__ = (
        "dead",
        "extents",
        "high_watermark",
        "key",
        "log_start_offset",
        "ongoing",
        "producers",
        "size_bytes",
        "version",
    )

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.version = 1
        self.log_start_offset = 0
        self.high_watermark = 0
        self.extents = ExtentTable()
        self.dead = DeadRanges()
        self.size_bytes = 0
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

    def kill(self, ranges: "array[int]") -> list[tuple[int, int]]:
        """Makes first, end, first, end, … dead unless they are deleted; returns what became dead."""
        killed = [
            (first, end)
            for first, end in zip(ranges[::2], ranges[1::2], strict=True)
            if end > self.log_start_offset
        ]
        for first, end in killed:
            self.dead.add(first, end)
        return killed

    def delta(self) -> PartitionDelta:
        """A delta from the version before the current one, with nothing but the offsets in it."""
        return PartitionDelta(
            partition=TopicPartition(topic_id=self.key[0], partition=self.key[1]),
            from_version=self.version - 1,
            version=self.version,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
        )

    def snapshot_delta(self) -> PartitionDelta:
        """The delta that replaces everything a watcher holds."""
        delta = self.delta()
        delta.from_version = 0
        delta.is_snapshot = True
        delta.appended.CopyFrom(self.extents.slice(0, len(self.extents)))
        add_dead(delta, zip(self.dead.firsts, self.dead.ends, strict=True))
        return delta


def add_dead(delta: PartitionDelta, ranges: Iterable[tuple[int, int]]) -> None:
    """Lists ranges of aborted records in a delta."""
    for first, end in ranges:
        delta.dead_first_offsets.append(first)
        delta.dead_end_offsets.append(end)


def deleted_delta(key: PartitionKey) -> PartitionDelta:
    """What a watcher of a partition that is not there gets."""
    partition = TopicPartition(topic_id=key[0], partition=key[1])
    return PartitionDelta(partition=partition, is_snapshot=True, is_deleted=True)
