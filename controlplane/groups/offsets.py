"""Committed offsets and those that wait for a transaction's outcome: durable (S26, S4, S6)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.group_records_pb2 import (
    GroupsSnapshot,
    KeptOffset,
    KeptOffsets,
    OffsetsWritten,
    PendingOffsets,
    TxnOffsetsPended,
)
from controlplane.v1.groups_pb2 import CommittedOffset

PartitionKey = tuple[bytes, int]  # (topic id, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """One committed offset. `sequence` tells which of two commits was written later."""

    offset: int
    leader_epoch: int
    metadata: str
    written_at_ms: int
    sequence: int

    def to_kept(self, key: PartitionKey) -> KeptOffset:
        """The snapshot's form."""
        return KeptOffset(
            offset=self.to_committed(key),
            written_at_ms=self.written_at_ms,
            sequence=self.sequence,
        )

    def to_committed(self, key: PartitionKey) -> CommittedOffset:
        """The form that answers and records share."""
        return CommittedOffset(
            partition=TopicPartition(topic_id=key[0], partition=key[1]),
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
        )

    @classmethod
    def from_committed(
        cls, committed: CommittedOffset, written_at_ms: int, sequence: int
    ) -> "StoredOffset":
        """What a record or a snapshot holds, with its place in time."""
        return cls(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            written_at_ms=written_at_ms,
            sequence=sequence,
        )


def key_of(partition: TopicPartition) -> PartitionKey:
    """The key under which offsets of a partition are held."""
    return (partition.topic_id, partition.partition)


OffsetsOfGroup = dict[PartitionKey, StoredOffset]


@dataclass(slots=True)
class Offsets:
    """All committed and pending offsets. Only replays change them."""

    committed: dict[str, OffsetsOfGroup] = field(default_factory=dict)
    pending: dict[int, dict[str, OffsetsOfGroup]] = field(default_factory=dict)
    # Derived from `pending`: which producers have something pending in a group.
    pending_producers: dict[str, dict[int, None]] = field(default_factory=dict)
    last_sequence: int = 0

    def write(self, record: OffsetsWritten) -> None:
        """Offsets that count at once."""
        offsets = self.committed.setdefault(record.group_id, {})
        self._store(offsets, record.offsets, record.written_at_ms)

    def pend(self, record: TxnOffsetsPended) -> None:
        """Offsets that wait for the outcome of the producer's transaction."""
        offsets = self._pending_of(record.producer_id, record.group_id)
        self._store(offsets, record.offsets, record.written_at_ms)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make a producer's pending offsets count, or drop them.

        As in Kafka a commit that was written after the pending one stays.
        """
        for group_id, offsets in self.pending.pop(producer_id, {}).items():
            self._unindex(group_id, producer_id)
            if not committed:
                continue
            kept = self.committed.setdefault(group_id, {})
            for key, offset in offsets.items():
                previous = kept.get(key)
                if previous is None or previous.sequence < offset.sequence:
                    kept[key] = offset

    def forget_group(self, group_id: str) -> None:
        """Drop a deleted group's offsets, also the pending ones."""
        self.committed.pop(group_id, None)
        for producer_id in list(self.pending_producers.get(group_id, ())):
            self._drop_pending(producer_id, group_id)

    def forget_topic(self, topic_id: bytes) -> None:
        """Drop a deleted topic's offsets, also the pending ones (S6)."""
        for group_id, offsets in list(self.committed.items()):
            _drop_topic(offsets, topic_id)
            if not offsets:
                del self.committed[group_id]
        for producer_id, groups in list(self.pending.items()):
            for group_id, offsets in list(groups.items()):
                _drop_topic(offsets, topic_id)
                if not offsets:
                    self._drop_pending(producer_id, group_id)

    def expire(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Drop committed offsets that nobody used for long."""
        offsets = self.committed.get(group_id, {})
        for partition in partitions:
            offsets.pop(key_of(partition), None)
        if not offsets:
            self.committed.pop(group_id, None)

    def is_pending(self, group_id: str, key: PartitionKey) -> bool:
        """Whether an ongoing transaction wrote an offset of this partition."""
        return any(
            key in self.pending[producer_id][group_id]
            for producer_id in self.pending_producers.get(group_id, ())
        )

    def has_group(self, group_id: str) -> bool:
        """Whether anything is held for a group."""
        return group_id in self.committed or group_id in self.pending_producers

    def group_ids(self) -> Iterator[str]:
        """Groups with offsets of either kind; one may come twice."""
        yield from self.committed
        yield from self.pending_producers

    def to_snapshot(self, snapshot: GroupsSnapshot) -> None:
        """Add everything to a snapshot, in an order that depends on the content alone."""
        snapshot.last_sequence = self.last_sequence
        for group_id, offsets in sorted(self.committed.items()):
            snapshot.offsets.append(KeptOffsets(group_id=group_id, offsets=_kept(offsets)))
        for producer_id, groups in sorted(self.pending.items()):
            for group_id, offsets in sorted(groups.items()):
                snapshot.pending.append(
                    PendingOffsets(
                        producer_id=producer_id, group_id=group_id, offsets=_kept(offsets)
                    )
                )

    @classmethod
    def from_snapshot(cls, snapshot: GroupsSnapshot) -> "Offsets":
        """What a snapshot holds."""
        offsets = cls(last_sequence=snapshot.last_sequence)
        for group in snapshot.offsets:
            _load(offsets.committed.setdefault(group.group_id, {}), group.offsets)
        for pending in snapshot.pending:
            _load(offsets._pending_of(pending.producer_id, pending.group_id), pending.offsets)
        return offsets

    def _store(
        self, offsets: OffsetsOfGroup, written: Iterable[CommittedOffset], written_at_ms: int
    ) -> None:
        for committed in written:
            self.last_sequence += 1
            offsets[key_of(committed.partition)] = StoredOffset.from_committed(
                committed, written_at_ms, self.last_sequence
            )

    def _pending_of(self, producer_id: int, group_id: str) -> OffsetsOfGroup:
        self.pending_producers.setdefault(group_id, {})[producer_id] = None
        return self.pending.setdefault(producer_id, {}).setdefault(group_id, {})

    def _drop_pending(self, producer_id: int, group_id: str) -> None:
        groups = self.pending[producer_id]
        del groups[group_id]
        if not groups:
            del self.pending[producer_id]
        self._unindex(group_id, producer_id)

    def _unindex(self, group_id: str, producer_id: int) -> None:
        producers = self.pending_producers[group_id]
        del producers[producer_id]
        if not producers:
            del self.pending_producers[group_id]


def _drop_topic(offsets: OffsetsOfGroup, topic_id: bytes) -> None:
    for key in [key for key in offsets if key[0] == topic_id]:
        del offsets[key]


def _kept(offsets: OffsetsOfGroup) -> list[KeptOffset]:
    return [offset.to_kept(key) for key, offset in sorted(offsets.items())]


def _load(offsets: OffsetsOfGroup, kept: Iterable[KeptOffset]) -> None:
    for entry in kept:
        offsets[key_of(entry.offset.partition)] = StoredOffset.from_committed(
            entry.offset, entry.written_at_ms, entry.sequence
        )
