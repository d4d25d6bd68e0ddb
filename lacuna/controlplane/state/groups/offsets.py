"""Committed offsets, and offsets that are pending until their transaction ends; both are durable (S26, S4, S6)."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.state.internal import InternalTopics
from lacuna.controlplane.state.owners import Owners
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.group_records_pb2 import (
    GroupsSnapshot,
    KeptOffset,
    KeptOffsets,
    OffsetsWritten,
    PendingOffsets,
    TxnOffsetsPended,
)
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset

#: The maximum number of offsets that receive tombstones when a group or topics are deleted. Every control plane on a
#: journal must use the same number.
MOST_BURIED: Final = 10_000
#: The number of offsets serialized at a time.
_PIECE_OFFSETS: Final = 10_000

#: The approximate size of an offset in bytes, without its metadata.
_SIZE: Final = 128


def size_of_offset(committed: CommittedOffset) -> int:
    return _SIZE + len(committed.metadata)


@dataclass(slots=True, kw_only=True)
class StoredOffset:
    """A committed or pending offset. Of two such offsets, the one with the higher `sequence` was written later.

    `log_offset` is its offset in __consumer_offsets once it is committed; no other field changes. `retention_ms` is the
    retention that its client set, counted from the commit, or None.
    """

    offset: int
    leader_epoch: int
    metadata: str
    written_at_ms: int
    sequence: int
    log_offset: int = 0
    retention_ms: int | None = None

    @property
    def size(self) -> int:
        return _SIZE + len(self.metadata)

    def to_kept(self, key: PartitionKey) -> KeptOffset:
        return KeptOffset(
            offset=self.to_committed(key),
            written_at_ms=self.written_at_ms,
            sequence=self.sequence,
            log_offset=self.log_offset,
        )

    def to_committed(self, key: PartitionKey) -> CommittedOffset:
        return CommittedOffset(
            partition=named(key),
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            retention_ms=self.retention_ms,
        )

    @classmethod
    def from_committed(
        cls,
        committed: CommittedOffset,
        written_at_ms: int,
        sequence: int,
        log_offset: int = 0,
    ) -> "StoredOffset":
        """Read the message from a journal record or snapshot, and add when and where the offset was written."""
        return cls(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            written_at_ms=written_at_ms,
            sequence=sequence,
            log_offset=log_offset,
            retention_ms=committed.retention_ms if committed.HasField("retention_ms") else None,
        )


OffsetsOfGroup = dict[PartitionKey, StoredOffset]


@dataclass(slots=True)
class Offsets:
    """All committed and pending offsets. Only replay changes them."""

    committed: dict[str, OffsetsOfGroup] = field(default_factory=dict)
    pending: dict[int, dict[str, OffsetsOfGroup]] = field(default_factory=dict)
    # Derived from `pending`: group id → the producers with pending offsets in it.
    pending_producers: dict[str, dict[int, None]] = field(default_factory=dict)
    last_sequence: int = 0
    internal: InternalTopics = field(default_factory=InternalTopics)
    #: The owners of the groups, and the groups' bytes.
    owners: Owners[str] = field(default_factory=Owners)
    #: The bytes of all offsets.
    size: int = 0

    def write(self, record: OffsetsWritten) -> None:
        group_id = record.group_id
        offsets = self.committed.setdefault(group_id, {})
        partition = self.internal.partition_of_group(group_id)
        more = 0
        for committed in record.offsets:
            key = key_of(committed.partition)
            log_offset = partition.take_for_offset(group_id, key)
            stored = self._stored(committed, record.written_at_ms, log_offset=log_offset)
            more += _put(offsets, key, stored)
        self._charge(group_id, more)

    def pend(self, record: TxnOffsetsPended) -> None:
        offsets = self._pending_of(record.producer_id, record.group_id)
        more = 0
        for committed in record.offsets:
            stored = self._stored(committed, record.written_at_ms)
            more += _put(offsets, key_of(committed.partition), stored)
        self._charge(record.group_id, more)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit a producer's pending offsets, or drop them if its transaction was aborted.

        As in Kafka, an offset committed after the pending one was written is kept. Offsets are committed in the order
        of their keys, as in a snapshot, so that each receives the same `log_offset` after a restart.
        """
        for group_id, offsets in sorted(self.pending.pop(producer_id, {}).items()):
            self._unindex(group_id, producer_id)
            if committed:
                self._commit(group_id, offsets)
            self._charge(group_id, -_sum(offsets))

    def _commit(self, group_id: str, offsets: OffsetsOfGroup) -> None:
        kept = self.committed.setdefault(group_id, {})
        partition = self.internal.partition_of_group(group_id)
        more = 0
        for key, offset in sorted(offsets.items()):
            previous = kept.get(key)
            if previous is None or previous.sequence < offset.sequence:
                more += _put(kept, key, offset)
                offset.log_offset = partition.take_for_offset(group_id, key)
        self._charge(group_id, more)

    def hold_back(self, now_ms: int) -> None:
        """Move times after `now_ms` to `now_ms`, because the clock was set back."""
        pending = chain.from_iterable(each.values() for each in self.pending.values())
        for offsets in chain(self.committed.values(), pending):
            for stored in offsets.values():
                stored.written_at_ms = min(stored.written_at_ms, now_ms)
        self.internal.hold_back(now_ms)

    def forget_group(self, group_id: str, name_of: Callable[[bytes], str], now_ms: int) -> None:
        """Drop all offsets of a deleted group, including pending ones. `name_of` maps topic ids to names."""
        offsets = self.committed.pop(group_id, {})
        self._charge(group_id, -_sum(offsets))
        self._bury(group_id, offsets, name_of, now_ms, MOST_BURIED)
        for producer_id in list(self.pending_producers.get(group_id, ())):
            self._drop_pending(producer_id, group_id)

    def forget_topics(self, names: Mapping[bytes, str], now_ms: int) -> None:
        """Drop all offsets of deleted topics, including pending ones (S6). `names` maps topic ids to former names."""
        left = MOST_BURIED
        found = ((each, _of_topics(offsets, names)) for each, offsets in self.committed.items())
        for group_id, gone in sorted((each, keys) for each, keys in found if keys):
            offsets = self.committed[group_id]
            self._charge(group_id, -sum(_drop(offsets, key) for key in gone))
            left = self._bury(group_id, gone, names.__getitem__, now_ms, left)
            if not offsets:
                del self.committed[group_id]
        for producer_id, groups in list(self.pending.items()):
            for group_id, offsets in list(groups.items()):
                gone = _of_topics(offsets, names)
                self._charge(group_id, -sum(_drop(offsets, key) for key in gone))
                if not offsets:
                    self._drop_pending(producer_id, group_id)

    def _bury(
        self,
        group_id: str,
        keys: Collection[PartitionKey],
        name_of: Callable[[bytes], str],
        now_ms: int,
        most: int,
    ) -> int:
        """Write tombstones for the first `most` of these offsets, and return how many may still be written.

        The others receive none, since with so many tombstones, the oldest ones would be dropped immediately.
        """
        for key in nsmallest(most, keys):
            self.internal.drop_offset(group_id, key, name_of(key[0]), now_ms)
        if len(keys) > most:
            self.internal.partition_of_group(
                group_id
            ).newest = None  # the list contains removed keys
        return max(0, most - len(keys))

    def expire(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        name_of: Callable[[bytes], str],
        now_ms: int,
    ) -> None:
        """Drop expired or deleted offsets, including pending ones. `name_of` maps topic ids to names."""
        keys = [key_of(partition) for partition in partitions]
        offsets = self.committed.get(group_id, {})
        less = 0
        for key in keys:
            if size := _drop(offsets, key):
                less += size
                self.internal.drop_offset(group_id, key, name_of(key[0]), now_ms)
        self._charge(group_id, -less)
        if not offsets:
            self.committed.pop(group_id, None)
        for producer_id in list(self.pending_producers.get(group_id, ())):
            pending = self.pending[producer_id][group_id]
            self._charge(group_id, -sum(_drop(pending, key) for key in keys))
            if not pending:
                self._drop_pending(producer_id, group_id)

    def is_pending(self, group_id: str, key: PartitionKey) -> bool:
        return any(key in pending for pending in self._pending_in(group_id))

    def has(self, group_id: str, key: PartitionKey) -> bool:
        return key in self.committed.get(group_id, ()) or self.is_pending(group_id, key)

    def has_no_others(self, group_id: str, keys: Set[PartitionKey]) -> bool:
        """Whether the group has no offsets for partitions other than these."""
        committed = self.committed.get(group_id, {})
        return all(each.keys() <= keys for each in (committed, *self._pending_in(group_id)))

    def has_group(self, group_id: str) -> bool:
        return group_id in self.committed or group_id in self.pending_producers

    def group_ids(self) -> Iterator[str]:
        """Yield the groups with committed or pending offsets, some of them twice."""
        yield from self.committed
        yield from self.pending_producers

    def pieces(self) -> Iterator[GroupsSnapshot]:
        """Yield everything as messages that together form a snapshot, in an order that depends only on the content."""
        yield GroupsSnapshot(
            last_sequence=self.last_sequence, internal_topics=self.internal.to_snapshot()
        )
        for group_id, offsets in sorted(self.committed.items()):
            for kept in _kept(offsets):
                yield GroupsSnapshot(offsets=[KeptOffsets(group_id=group_id, offsets=kept)])
        for producer_id, groups in sorted(self.pending.items()):
            for group_id, offsets in sorted(groups.items()):
                for kept in _kept(offsets):
                    pending = PendingOffsets(
                        producer_id=producer_id, group_id=group_id, offsets=kept
                    )
                    yield GroupsSnapshot(pending=[pending])

    def load(self, piece: GroupsSnapshot) -> None:
        self.last_sequence = piece.last_sequence or self.last_sequence
        if piece.HasField("internal_topics"):
            self.internal.restore(piece.internal_topics)
        for group in piece.offsets:
            kept = self.committed.setdefault(group.group_id, {})
            self._charge(group.group_id, _load(kept, group.offsets))
        for pending in piece.pending:
            pended = self._pending_of(pending.producer_id, pending.group_id)
            self._charge(pending.group_id, _load(pended, pending.offsets))

    def _stored(
        self, committed: CommittedOffset, written_at_ms: int, log_offset: int = 0
    ) -> StoredOffset:
        self.last_sequence += 1
        return StoredOffset.from_committed(committed, written_at_ms, self.last_sequence, log_offset)

    def _charge(self, group_id: str, more: int) -> None:
        self.size += more
        self.owners.charge(group_id, more)

    def _pending_of(self, producer_id: int, group_id: str) -> OffsetsOfGroup:
        self.pending_producers.setdefault(group_id, {})[producer_id] = None
        return self.pending.setdefault(producer_id, {}).setdefault(group_id, {})

    def _pending_in(self, group_id: str) -> Iterator[OffsetsOfGroup]:
        for producer_id in self.pending_producers.get(group_id, ()):
            yield self.pending[producer_id][group_id]

    def _drop_pending(self, producer_id: int, group_id: str) -> None:
        groups = self.pending[producer_id]
        self._charge(group_id, -_sum(groups.pop(group_id)))
        if not groups:
            del self.pending[producer_id]
        self._unindex(group_id, producer_id)

    def _unindex(self, group_id: str, producer_id: int) -> None:
        producers = self.pending_producers[group_id]
        del producers[producer_id]
        if not producers:
            del self.pending_producers[group_id]


def _put(offsets: OffsetsOfGroup, key: PartitionKey, stored: StoredOffset) -> int:
    """Set an offset, and return the number of bytes that this adds to the total."""
    before = offsets.get(key)
    offsets[key] = stored
    return stored.size - (0 if before is None else before.size)


def _drop(offsets: OffsetsOfGroup, key: PartitionKey) -> int:
    """Remove an offset, and return its size, or 0 if there is none."""
    dropped = offsets.pop(key, None)
    return 0 if dropped is None else dropped.size


def _of_topics(offsets: OffsetsOfGroup, topic_ids: Container[bytes]) -> list[PartitionKey]:
    return [key for key in offsets if key[0] in topic_ids]


def _sum(offsets: OffsetsOfGroup) -> int:
    return sum(each.size for each in offsets.values())


def _kept(offsets: OffsetsOfGroup) -> Iterator[list[KeptOffset]]:
    """Yield a group's offsets, at most _PIECE_OFFSETS at a time."""
    kept: list[KeptOffset] = []
    for key, offset in sorted(offsets.items()):
        if len(kept) == _PIECE_OFFSETS:
            yield kept
            kept = []
        kept.append(offset.to_kept(key))
    yield kept


def _load(offsets: OffsetsOfGroup, kept: Iterable[KeptOffset]) -> int:
    """Add offsets from a snapshot, and return their size."""
    size = 0
    for entry in kept:
        stored = StoredOffset.from_committed(
            entry.offset, entry.written_at_ms, entry.sequence, entry.log_offset
        )
        offsets[key_of(entry.offset.partition)] = stored
        size += stored.size
    return size
