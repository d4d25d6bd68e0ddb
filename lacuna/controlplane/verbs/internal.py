"""The internal topics: writes group records, serves reads, and sends deltas to watchers (ADR 43).

`controlplane.state.internal` assigns the offsets. Committed offsets and transactional ids receive theirs in the code
that changes them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_TOPICS,
    OFFSETS_NUMBER,
    PARTITION_COUNT,
    Kind,
    partition_of,
)
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.groups.consumer.assignments import write_assignment
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.internal import (
    TOMBSTONES_MS,
    InternalPartition,
    Listed,
    NameKey,
    OffsetKey,
    Place,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.transactional import TransactionalId
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupStep, ConsumerTarget
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import InternalKey
from lacuna.controlplane.v1.internal_pb2 import (
    InternalEntry,
    InternalPartitionRead,
    InternalPosition,
    InternalRead,
    InternalTransaction,
    ReadInternal,
)
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: How long the lists for readers are kept after the last read.
LISTED_MS: Final = 60_000
#: The maximum size of an answer in bytes, and the maximum number of entries that a command examines in a partition.
#: This takes about ten milliseconds, during which nothing else is decided.
_MAX_BYTES: Final = 64 << 10
_MAX_ENTRIES: Final = 1_000
_OF_MEMBERS: Final = (Kind.SUBSCRIPTION, Kind.TARGET, Kind.CURRENT)


# For replay.


def write_step(state: State, step: ConsumerGroupStep, now_ms: int) -> None:
    """Write the records changed by a step of a consumer group. Must be called before the step is applied."""
    internal, group_id = state.internal, step.group_id
    before = state.groups.consumers.get(group_id)
    if before is None:
        internal.drop_group(group_id, [NameKey(Kind.GENERATION, group_id)], now_ms)
    gone = [
        NameKey(kind, group_id, member_id)
        for member_id in step.removed_member_ids
        for kind in _OF_MEMBERS
    ]
    internal.drop_group(group_id, gone, now_ms)
    internal.write_group(group_id, _changed(step, before), now_ms)


def _changed(step: ConsumerGroupStep, before: ConsumerGroup | None) -> Iterator[NameKey]:
    group_id = step.group_id
    for member in step.members:
        if member.HasField("subscription"):
            yield NameKey(Kind.SUBSCRIPTION, group_id, member.member_id)
    if before is None or before.group_epoch != step.group_epoch:
        yield NameKey(Kind.GROUP_EPOCH, group_id)
    for member in step.members:
        if member.HasField("target"):
            yield NameKey(Kind.TARGET, group_id, member.member_id)
    if before is None or before.assignment_epoch != step.assignment_epoch:
        yield NameKey(Kind.TARGET_EPOCH, group_id)
    for member in step.members:
        if member.HasField("current"):
            yield NameKey(Kind.CURRENT, group_id, member.member_id)


def drop_group(state: State, group_id: str, now_ms: int) -> None:
    """Write tombstones for all records about a group, except its offsets."""
    keys = sorted(state.internal.group_records.get(group_id, ()))
    state.internal.drop_group(group_id, keys, now_ms)


def drop_consumer_group(state: State, group_id: str, now_ms: int) -> None:
    """Write tombstones for the records of a consumer group that is about to become a classic group."""
    if group_id in state.groups.consumers:
        drop_group(state, group_id, now_ms)


# Ticks.


def tick_internal(turn: Turn) -> None:
    """Send pending changes to watchers, and drop the lists for readers once there has been no read for LISTED_MS."""
    state, internal = turn.state, turn.state.internal
    is_read = turn.now_ms - internal.read_ms < LISTED_MS
    for key, partition in internal.keyed():
        if partition.told_offset != partition.next_offset:
            _tell(state, key, partition)
        if partition.newest is not None and not is_read:
            partition.newest = None
    new = [number for number in internal.existing() if number not in internal.told_topics]
    if new:
        internal.told_topics.update(new)
        # The version is durable, but this changes nothing durable.
        state.changes.append(ClusterDelta(version=state.cluster_version, internal_topics=new))


def _tell(state: State, key: PartitionKey, partition: InternalPartition) -> None:
    partition.told_offset = partition.next_offset
    if key in state.watched:
        state.changes.append(partition.delta(key))


# Reading.


def partition_state(state: State, key: PartitionKey) -> PartitionState | None:
    """Return a partition's offsets, and report them to watchers; None if its topic is not internal."""
    partition = state.internal.find(key)
    if partition is None:
        return None
    _tell(state, key, partition)
    end_offset = partition.next_offset
    return PartitionState(
        version=end_offset, high_watermark=end_offset, last_stable_offset=end_offset
    )


def read_internal(turn: Turn, command: ReadInternal) -> Reply:
    """Return records from the given offsets on. Once the answer is full, later partitions receive none."""
    turn.state.internal.read_ms = turn.now_ms
    left = min(command.max_bytes, _MAX_BYTES)
    partitions: list[InternalPartitionRead] = []
    for position in command.positions:
        is_first = not any(each.entries for each in partitions)
        read = _read(turn, position, min(position.max_bytes, left), at_least_one=is_first)
        left -= read.ByteSize()
        partitions.append(read)
    return Reply(internal_read=InternalRead(partitions=partitions))


def _read(
    turn: Turn, position: InternalPosition, max_bytes: int, *, at_least_one: bool
) -> InternalPartitionRead:
    state = turn.state
    if not (
        0 <= position.topic < len(INTERNAL_TOPICS) and 0 <= position.partition < PARTITION_COUNT
    ):
        raise MalformedCommand(
            f"there is no partition {position.partition} of internal topic {position.topic}"
        )
    partition = state.internal.topics[position.topic][position.partition]
    if max_bytes <= 0 and not at_least_one:
        return InternalPartitionRead(
            high_watermark=partition.next_offset, end_offset=position.offset
        )
    if partition.newest is None:
        partition.newest = dict(_listed(state, position.topic, position.partition))
    answer = InternalPartitionRead(high_watermark=partition.next_offset)
    answer.end_offset = max(position.offset, partition.next_offset)
    size = 0
    for seen, (key, offset) in enumerate(_from(partition.newest, position.offset)):
        entry = _entry(turn, key, offset)
        if entry is not None:
            size += entry.ByteSize()
        is_full = size > max_bytes and (bool(answer.entries) or not at_least_one)
        if is_full or seen == _MAX_ENTRIES:
            answer.end_offset = offset
            break
        if entry is not None:
            answer.entries.append(entry)
    return answer


def _from(newest: dict[Listed, int], offset: int) -> Iterable[tuple[Listed, int]]:
    """Return the records at `offset` and later, searching from the nearer end."""
    if not newest:
        return ()
    first, last = next(iter(newest.values())), next(reversed(newest.values()))
    if offset - first < last - offset:
        return (each for each in newest.items() if each[1] >= offset)
    later = []
    for each in reversed(newest.items()):
        if each[1] < offset:
            break
        later.append(each)
    return reversed(later)


def _listed(state: State, number: int, index: int) -> list[tuple[Listed, int]]:
    """Return the keys and offsets of all records of a partition, ordered by offset."""
    internal, found = state.internal, list[tuple[Listed, int]]()
    if number == OFFSETS_NUMBER:
        for group_id, offsets in state.groups.offsets.committed.items():
            if partition_of(group_id) == index:
                found += [
                    (OffsetKey(group_id, key), stored.log_offset) for key, stored in offsets.items()
                ]
        for group_id, kept in internal.group_records.items():
            if partition_of(group_id) == index:
                found += [(key, stamp.offset) for key, stamp in kept.items()]
    else:
        found += [
            (NameKey(Kind.TRANSACTION, name), each.log_offset)
            for name, each in state.transactional_ids.items()
            if partition_of(name) == index
        ]
    found += [
        (place, place.offset)
        for place in internal.tombstones
        if (place.number, place.partition) == (number, index)
    ]
    found.sort(key=lambda each: each[1])
    return found


def _entry(turn: Turn, key: Listed, offset: int) -> InternalEntry | None:
    """Return the record of a key, or None for an expired tombstone."""
    state = turn.state
    if isinstance(key, Place):
        tombstone = state.internal.tombstones[key]
        if turn.now_ms - tombstone.at_ms > TOMBSTONES_MS:
            return None
        return InternalEntry(offset=offset, at_ms=tombstone.at_ms, key=tombstone.key())
    if isinstance(key, OffsetKey):
        stored = state.groups.offsets.committed[key.group_id][key.partition]
        named = InternalKey(
            kind=Kind.OFFSET,
            name=key.group_id,
            topic=state.topic_name(key.partition[0]),
            partition=key.partition[1],
        )
        return InternalEntry(
            offset=offset,
            at_ms=stored.written_at_ms,
            key=named,
            committed=stored.to_committed(key.partition),
        )
    entry = InternalEntry(
        offset=offset, key={"kind": key.kind, "name": key.name, "member_id": key.member_id}
    )
    if key.kind is Kind.TRANSACTION:
        found = state.transactional_ids[key.name]
        entry.at_ms = found.last_update_ms
        entry.transaction.CopyFrom(_transaction(state, found))
    else:
        entry.at_ms = state.internal.group_records[key.name][key].at_ms
        _put_group(entry, state, key)
    return entry


def _put_group(entry: InternalEntry, state: State, key: NameKey) -> None:
    if key.kind is Kind.GENERATION:
        entry.generation.CopyFrom(state.groups.generations[key.name])
        return
    group = state.groups.consumers[key.name]
    match key.kind:
        case Kind.GROUP_EPOCH:
            entry.epoch = group.group_epoch
        case Kind.TARGET_EPOCH:
            entry.epoch = group.assignment_epoch
        case Kind.SUBSCRIPTION:
            entry.subscription.CopyFrom(group.members[key.member_id].subscription.to_record())
        case Kind.TARGET:
            target = write_assignment(group.members[key.member_id].target)
            entry.target.CopyFrom(ConsumerTarget(partitions=target))
        case _:
            entry.current.CopyFrom(group.members[key.member_id].current.to_record())


def _transaction(state: State, found: TransactionalId) -> InternalTransaction:
    partitions = [key for key in found.partitions if key in state.partitions]
    return InternalTransaction(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        previous_producer_id=found.previous_producer_id,
        transaction_timeout_ms=found.transaction_timeout_ms,
        state=found.state.value,
        start_time_ms=found.start_time_ms,
        last_update_ms=found.last_update_ms,
        topics=[state.topic_name(topic_id) for topic_id, _ in partitions],
        partitions=[index for _, index in partitions],
        group_ids=found.group_ids,
    )


VERBS: Final = (Verb(read_internal, looks=True),)
