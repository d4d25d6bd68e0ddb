"""The offsets of __consumer_offsets and __transaction_state, which are derived from the rest of the state (ADR 43).

Readers see each as a compacted topic. Each change to a key assigns the next offset of its partition to the key's newest
record; the offsets of earlier records are holes. The content of a record is read from the state when a consumer fetches
it.

Committed offsets and transactional ids hold their own `log_offset`; `group_records` and `tombstones` hold the offsets
of all other records. Only replay changes these. While a partition is being read, `newest` lists its records in order;
otherwise, a change only increments a counter.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_TOPICS,
    NUMBERS_BY_ID,
    OFFSETS_NUMBER,
    PARTITION_COUNT,
    TRANSACTIONS_NUMBER,
    Kind,
    partition_of,
)
from lacuna.controlplane.shared.partitions import PartitionKey, named
from lacuna.controlplane.v1.group_records_pb2 import (
    InternalGroupRecord,
    InternalKey,
    InternalTombstone,
    InternalTopicsSnapshot,
)
from lacuna.controlplane.v1.log_pb2 import PartitionDelta

#: Tombstones are kept for delete.retention.ms (a day by default), up to this many in both topics together.
TOMBSTONES_MS: Final = 86_400_000
MAX_TOMBSTONES: Final = 50_000


class OffsetKey(NamedTuple):
    group_id: str
    partition: PartitionKey


class NameKey(NamedTuple):
    """The key of any record other than a committed offset: a group id or transactional id, and a member id or ""."""

    kind: Kind
    name: str
    member_id: str = ""


class Tombstone(NamedTuple):
    """Marks a key without a record. For a committed offset, it holds the topic's name, since the topic may be gone."""

    kind: Kind
    name: str
    member_id: str
    topic: str
    partition: int
    at_ms: int

    def key(self) -> InternalKey:
        return InternalKey(
            kind=self.kind,
            name=self.name,
            member_id=self.member_id,
            topic=self.topic,
            partition=self.partition,
        )


class Place(NamedTuple):
    """Where a tombstone is. `number` identifies the topic."""

    number: int
    partition: int
    offset: int


class Stamp(NamedTuple):
    """The offset and time (ms) of a group record."""

    offset: int
    at_ms: int


#: An entry of `newest`: a key whose record is in the state, or the place of a tombstone.
Listed: TypeAlias = OffsetKey | NameKey | Place


class InternalPartition:
    """A partition: its next offset (durable), the last offset reported to watchers, and the list for readers."""

    __slots__ = ("newest", "next_offset", "told_offset")

    def __init__(self) -> None:
        self.next_offset = 0
        self.told_offset = 0
        #: The offset of each newest record, in order; None while there is no reader.
        self.newest: dict[Listed, int] | None = None

    def take(self, key: Listed) -> int:
        """Assign the next offset to the key's newest record."""
        offset = self.next_offset
        self.next_offset = offset + 1
        if self.newest is not None:
            self.newest.pop(key, None)
            self.newest[key] = offset
        return offset

    def take_for_offset(self, group_id: str, partition: PartitionKey) -> int:
        """Assign the next offset to a committed offset."""
        if self.newest is not None:
            return self.take(OffsetKey(group_id, partition))
        offset = self.next_offset
        self.next_offset = offset + 1
        return offset

    def delta(self, key: PartitionKey) -> PartitionDelta:
        """Return the delta for watchers. It is complete in itself, and does not depend on earlier deltas."""
        return PartitionDelta(
            partition=named(key),
            is_snapshot=True,
            version=self.next_offset,
            high_watermark=self.next_offset,
            last_stable_offset=self.next_offset,
        )


class InternalTopics:
    """Both internal topics, ordered by number."""

    def __init__(self) -> None:
        self.topics = tuple(
            [InternalPartition() for _ in range(PARTITION_COUNT)] for _ in INTERNAL_TOPICS
        )
        self.offsets, self.transactions = self.topics
        #: group id -> kind and member id -> its record
        self.group_records: dict[str, dict[NameKey, Stamp]] = {}
        self.tombstones: dict[Place, Tombstone] = {}  # the oldest first
        # Volatile:
        self.told_topics: set[int] = set()  # the topics that sessions already know to have records
        self.read_ms = 0  # when a partition was last read

    def find(self, key: PartitionKey) -> InternalPartition | None:
        """Return the partition with this key, or None if it is not part of an internal topic."""
        number = NUMBERS_BY_ID.get(key[0])
        if number is None or not 0 <= key[1] < PARTITION_COUNT:
            return None
        return self.topics[number][key[1]]

    def keyed(self) -> Iterator[tuple[PartitionKey, InternalPartition]]:
        for topic, partitions in zip(INTERNAL_TOPICS, self.topics, strict=True):
            for index, partition in enumerate(partitions):
                yield (topic.topic_id, index), partition

    def existing(self) -> list[int]:
        """Return the numbers of the topics that have, or have had, records."""
        return [
            number
            for number, partitions in enumerate(self.topics)
            if any(each.next_offset for each in partitions)
        ]

    # For replay.

    def partition_of_group(self, group_id: str) -> InternalPartition:
        """Return the partition that holds a group's records."""
        return self.offsets[partition_of(group_id)]

    def take_transaction(self, transactional_id: str) -> int:
        """Assign an offset to a transactional id's record."""
        partition = self.transactions[partition_of(transactional_id)]
        return partition.take(NameKey(Kind.TRANSACTION, transactional_id))

    def write_group(self, group_id: str, keys: Iterable[NameKey], now_ms: int) -> None:
        partition = self.partition_of_group(group_id)
        kept = self.group_records.setdefault(group_id, {})
        for key in keys:
            kept[key] = Stamp(partition.take(key), now_ms)

    def drop_group(self, group_id: str, keys: Iterable[NameKey], now_ms: int) -> None:
        """Write tombstones for the keys that have records."""
        kept = self.group_records.get(group_id, {})
        for key in keys:
            if kept.pop(key, None) is not None:
                self._bury(OFFSETS_NUMBER, key, Tombstone(*key, "", 0, now_ms))
        if not kept:
            self.group_records.pop(group_id, None)

    def drop_transaction(self, transactional_id: str, now_ms: int) -> None:
        key = NameKey(Kind.TRANSACTION, transactional_id)
        self._bury(TRANSACTIONS_NUMBER, key, Tombstone(*key, "", 0, now_ms))

    def drop_offset(self, group_id: str, partition: PartitionKey, topic: str, now_ms: int) -> None:
        """Write a tombstone for a committed offset in a topic of this name."""
        tombstone = Tombstone(Kind.OFFSET, group_id, "", topic, partition[1], now_ms)
        self._bury(OFFSETS_NUMBER, OffsetKey(group_id, partition), tombstone)

    def hold_back(self, now_ms: int) -> None:
        """Move times after `now_ms` to `now_ms`, because the clock was set back."""
        for kept in self.group_records.values():
            for key, stamp in kept.items():
                kept[key] = stamp._replace(at_ms=min(stamp.at_ms, now_ms))
        for place, tombstone in self.tombstones.items():
            self.tombstones[place] = tombstone._replace(at_ms=min(tombstone.at_ms, now_ms))

    def _bury(self, number: int, key: OffsetKey | NameKey, tombstone: Tombstone) -> None:
        index = partition_of(tombstone.name)
        partition = self.topics[number][index]
        if partition.newest is not None:
            partition.newest.pop(key, None)
        place = Place(number, index, partition.next_offset)
        partition.take(place)
        self.tombstones[place] = tombstone
        self._forget_old(tombstone.at_ms - TOMBSTONES_MS)

    def _forget_old(self, oldest_ms: int) -> None:
        while self.tombstones:
            place, oldest = next(iter(self.tombstones.items()))
            if oldest.at_ms >= oldest_ms and len(self.tombstones) <= MAX_TOMBSTONES:
                return
            del self.tombstones[place]
            newest = self.topics[place.number][place.partition].newest
            if newest is not None:
                newest.pop(place, None)

    # Snapshots.

    def to_snapshot(self) -> InternalTopicsSnapshot:
        """Return a snapshot of the durable part; equal states give equal messages."""
        return InternalTopicsSnapshot(
            offsets_high_watermarks=[each.next_offset for each in self.offsets],
            transactions_high_watermarks=[each.next_offset for each in self.transactions],
            group_records=[
                InternalGroupRecord(
                    key=InternalKey(kind=key.kind, name=key.name, member_id=key.member_id),
                    offset=stamp.offset,
                    at_ms=stamp.at_ms,
                )
                for _, kept in sorted(self.group_records.items())
                for key, stamp in sorted(kept.items())
            ],
            tombstones=[
                InternalTombstone(
                    topic=place.number,
                    partition=place.partition,
                    offset=place.offset,
                    at_ms=tombstone.at_ms,
                    key=tombstone.key(),
                )
                for place, tombstone in self.tombstones.items()
            ],
        )

    def restore(self, snapshot: InternalTopicsSnapshot) -> None:
        _set_offsets(self.offsets, snapshot.offsets_high_watermarks)
        _set_offsets(self.transactions, snapshot.transactions_high_watermarks)
        for record in snapshot.group_records:
            key = NameKey(Kind(record.key.kind), record.key.name, record.key.member_id)
            kept = self.group_records.setdefault(key.name, {})
            kept[key] = Stamp(record.offset, record.at_ms)
        for buried in snapshot.tombstones:
            self.tombstones[Place(buried.topic, buried.partition, buried.offset)] = Tombstone(
                Kind(buried.key.kind),
                buried.key.name,
                buried.key.member_id,
                buried.key.topic,
                buried.key.partition,
                buried.at_ms,
            )


def _set_offsets(partitions: Sequence[InternalPartition], next_offsets: Sequence[int]) -> None:
    for partition, next_offset in zip(partitions, next_offsets, strict=True):
        partition.next_offset = next_offset
