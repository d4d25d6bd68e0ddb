"""Reads the internal topics by getting entries from the control plane and encoding them as Kafka does (ADR 43).

Nothing is cached. An answer contains one batch with the newest record of each key. The batch ends where the control
plane stopped reading, so that consumers also move past a hole at the end.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any, Final

from lacuna.agent.fetch.answers import READ_UNCOMMITTED, failed
from lacuna.agent.fetch.lookup import TimedOffset
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.sessions import Interest
from lacuna.controlplane.client import (
    CommandRefused,
    ControlClient,
    ControlPlaneUnavailable,
    PartitionView,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import (
    CONSUMER_OFFSETS,
    NUMBERS_BY_ID,
    Kind,
    partition_of,
)
from lacuna.controlplane.v1.consumer_groups_pb2 import TopicIdPartitions
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, InternalKey
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset
from lacuna.controlplane.v1.internal_pb2 import (
    InternalEntry,
    InternalPartitionRead,
    InternalPosition,
    InternalTransaction,
    ReadInternal,
)
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.control import filler
from lacuna.wire import records as forms
from lacuna.wire.layout import Message
from lacuna.wire.messages.fetch import PartitionData

#: The maximum number of bytes requested at a time. The control plane may return fewer.
MAX_BYTES: Final = 1 << 20
_LEADER_EPOCH: Final = 0
_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1
_VERSION_SIZE: Final = 2

#: The value versions that Kafka 4.1 writes.
_GENERATION_VERSION: Final = 3
_OFFSET_VERSION: Final = 3
#: The last version that has an offset's expiry time, which Kafka writes if a client has set one.
_EXPIRING_OFFSET_VERSION: Final = 1
_TRANSACTION_VERSION: Final = 1
#: transaction.version 2, which Lacuna allows all clients to use.
_CLIENT_TRANSACTION_VERSION: Final = 2

#: Kafka's numbers for the states.
_TRANSACTION_STATES: Final = {"Empty": 0, "Ongoing": 1, "CompleteCommit": 4, "CompleteAbort": 5}
_MEMBER_STATES: Final = {"Stable": 0, "UnrevokedPartitions": 1, "UnreleasedPartitions": 2}


async def read_all(
    control: ControlClient, plans: Mapping[Interest, FetchPlan], max_bytes: int
) -> dict[Interest, PartitionData]:
    """Return the records for each interest, with bounds not yet set. `max_bytes` applies to all interests together."""
    positions = [
        position_of(
            plan.partition, plan.asked_offset, min(max(interest.partition_max_bytes, 0), MAX_BYTES)
        )
        for interest, plan in plans.items()
    ]
    try:
        reads = await _read(control, positions, min(max_bytes, MAX_BYTES))
    except (CommandRefused, ControlPlaneUnavailable):
        return refuse_all(plans)
    return {
        interest: PartitionData(interest.partition, records=_buffers(plan, read))
        for (interest, plan), read in zip(plans.items(), reads, strict=True)
    }


def refuse_all(interests: Iterable[Interest]) -> dict[Interest, PartitionData]:
    """Return a retriable error for each interest."""
    error = ErrorCode.KAFKA_STORAGE_ERROR
    return {interest: failed(interest.partition, error, READ_UNCOMMITTED) for interest in interests}


async def first_at_or_after(
    control: ControlClient, view: PartitionView, timestamp: int
) -> TimedOffset | None:
    """Return the first record whose timestamp is at least `timestamp` (ms), or None if there is none."""
    async with aclosing(_entries(control, view)) as pages:
        async for entries in pages:
            for entry in entries:
                if entry.at_ms >= timestamp:
                    return TimedOffset(entry.offset, entry.at_ms)
    return None


async def latest_by_time(control: ControlClient, view: PartitionView) -> TimedOffset | None:
    """Return the first of the records with the largest timestamp, or None if there are no records."""
    found: TimedOffset | None = None
    async with aclosing(_entries(control, view)) as pages:
        async for entries in pages:
            for entry in entries:
                if found is None or entry.at_ms > found.timestamp:
                    found = TimedOffset(entry.offset, entry.at_ms)
    return found


async def _entries(
    control: ControlClient, view: PartitionView
) -> AsyncGenerator[Sequence[InternalEntry]]:
    offset = 0
    while offset < view.high_watermark:
        position = position_of((view.topic_id, view.partition), offset, MAX_BYTES)
        (read,) = await _read(control, [position], MAX_BYTES)
        yield read.entries
        offset = read.end_offset


def position_of(partition: tuple[bytes, int], offset: int, max_bytes: int) -> InternalPosition:
    topic_id, index = partition
    return InternalPosition(
        topic=NUMBERS_BY_ID[topic_id], partition=index, offset=offset, max_bytes=max_bytes
    )


async def _read(
    control: ControlClient, positions: Sequence[InternalPosition], max_bytes: int
) -> Sequence[InternalPartitionRead]:
    command = ReadInternal(positions=positions, max_bytes=max_bytes)
    return (await control.call(Command(read_internal=command))).internal_read.partitions


def _buffers(plan: FetchPlan, read: InternalPartitionRead) -> tuple[bytes, ...]:
    """Return the records as one batch, or a filler if there is only a hole.

    The view determines the end of the answer, even if the control plane knows more.
    """
    end_offset = min(read.end_offset, plan.end_offset)
    entries = [entry for entry in read.entries if entry.offset < end_offset]
    if entries:
        return (_batch(entries, end_offset),)
    if end_offset > plan.asked_offset:
        return (filler(plan.asked_offset, end_offset),)
    return ()


def _batch(entries: Sequence[InternalEntry], end_offset: int) -> bytes:
    base_offset = entries[0].offset
    last_offset = min(end_offset - 1, base_offset + _MAX_INT32)
    records = []
    for entry in entries:
        if entry.offset <= last_offset:
            key, value = record_of(entry)
            delta = entry.offset - base_offset
            records.append(
                NewRecord(offset_delta=delta, timestamp=entry.at_ms, key=key, value=value)
            )
    batch = BatchToWrite(
        records=tuple(records),
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        partition_leader_epoch=_LEADER_EPOCH,
    )
    return batch.encode()


# From entries to the bytes of Kafka's records. A key or value begins with its version; a key's version is its kind.


def record_of(entry: InternalEntry) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record. The value is None for a tombstone."""
    return _key(entry.key), _value(entry)


#: The classes of keys by kind, which is also the version of the key.
_KEYS: Final[Mapping[int, Message[Any]]] = {
    message.api_key: message
    for message in (
        forms.TRANSACTION_LOG_KEY,
        forms.OFFSET_COMMIT_KEY,
        forms.GROUP_METADATA_KEY,
        forms.CONSUMER_GROUP_METADATA_KEY,
        forms.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
        forms.CONSUMER_GROUP_MEMBER_METADATA_KEY,
        forms.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
        forms.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    )
}


def _key(key: InternalKey) -> bytes:
    match key.kind:
        case Kind.TRANSACTION | Kind.GENERATION | Kind.GROUP_EPOCH | Kind.TARGET_EPOCH:
            values: tuple[str | int, ...] = (key.name,)
        case Kind.OFFSET:
            values = (key.name, key.topic, key.partition)
        case Kind.SUBSCRIPTION | Kind.TARGET | Kind.CURRENT:
            values = (key.name, key.member_id)
        case _:
            raise ValueError(f"no records have the kind {key.kind}")
    message = _KEYS[key.kind]
    return message.api_key.to_bytes(_VERSION_SIZE) + message.write(message.body.make(*values), 0)


def _value(entry: InternalEntry) -> bytes | None:
    match entry.WhichOneof("value"):
        case "committed":
            return _offset_value(entry.committed, entry.at_ms)
        case "generation":
            return _generation_value(entry.generation)
        case "epoch":
            return _epoch_value(entry)
        case "subscription":
            return _subscription_value(entry)
        case "target":
            rows = [
                forms.TopicPartition(row.topic_id, row.partitions)
                for row in entry.target.partitions
            ]
            return _versioned(
                forms.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
                forms.ConsumerGroupTargetAssignmentMemberValue(rows),
                0,
            )
        case "current":
            return _current_value(entry)
        case "transaction":
            return _transaction_value(entry.transaction)
        case _:
            return None


def _offset_value(committed: CommittedOffset, at_ms: int) -> bytes:
    value = forms.OffsetCommitValue(
        committed.offset, committed.leader_epoch, committed.metadata, at_ms
    )
    if not committed.HasField("retention_ms"):
        return _versioned(forms.OFFSET_COMMIT_VALUE, value, _OFFSET_VERSION)
    expires_ms = min(at_ms + committed.retention_ms, _MAX_INT64)
    value = value._replace(expire_timestamp=expires_ms)
    return _versioned(forms.OFFSET_COMMIT_VALUE, value, _EXPIRING_OFFSET_VERSION)


def _generation_value(found: GroupGeneration) -> bytes:
    value = forms.GroupMetadataValue(
        protocol_type=found.protocol_type,
        generation=found.generation_id,
        protocol=found.protocol_name or None,
        leader=found.leader or None,
        current_state_timestamp=found.written_at_ms,
        members=[
            forms.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id or None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata,
                assignment=member.assignment,
            )
            for member in found.members
        ],
    )
    return _versioned(forms.GROUP_METADATA_VALUE, value, _GENERATION_VERSION)


def _epoch_value(entry: InternalEntry) -> bytes:
    if entry.key.kind == Kind.GROUP_EPOCH:
        return _versioned(
            forms.CONSUMER_GROUP_METADATA_VALUE,
            forms.ConsumerGroupMetadataValue(entry.epoch),
            0,
        )
    return _versioned(
        forms.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        forms.ConsumerGroupTargetAssignmentMetadataValue(entry.epoch),
        0,
    )


def _subscription_value(entry: InternalEntry) -> bytes:
    found = entry.subscription
    classic = None
    if found.HasField("classic"):
        classic = forms.ClassicMemberMetadata(
            found.classic.session_timeout_ms,
            [forms.ClassicProtocol(each.name, each.metadata) for each in found.classic.protocols],
        )
    value = forms.ConsumerGroupMemberMetadataValue(
        instance_id=found.group_instance_id or None,
        rack_id=found.rack_id or None,
        client_id=found.client_id,
        client_host=found.client_host,
        subscribed_topic_names=found.topic_names,
        subscribed_topic_regex=found.topic_regex,
        rebalance_timeout_ms=found.rebalance_timeout_ms,
        server_assignor=found.server_assignor or None,
        classic_member_metadata=classic,
    )
    return _versioned(forms.CONSUMER_GROUP_MEMBER_METADATA_VALUE, value, 0)


def _current_value(entry: InternalEntry) -> bytes:
    found = entry.current
    value = forms.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=found.member_epoch,
        previous_member_epoch=found.previous_member_epoch,
        state=_MEMBER_STATES[found.state],
        assigned_partitions=_current_rows(found.assigned),
        partitions_pending_revocation=_current_rows(found.revoking),
    )
    return _versioned(forms.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE, value, 0)


def _current_rows(rows: Iterable[TopicIdPartitions]) -> list[forms.TopicPartitions]:
    return [forms.TopicPartitions(row.topic_id, row.partitions) for row in rows]


def _transaction_value(found: InternalTransaction) -> bytes:
    pairs = [*zip(found.topics, found.partitions, strict=True)]
    pairs += [(CONSUMER_OFFSETS, partition_of(group_id)) for group_id in found.group_ids]
    partitions = [
        forms.PartitionsSchema(topic, [index for _, index in rows])
        for topic, rows in groupby(sorted(set(pairs)), key=lambda pair: pair[0])
    ]
    value = forms.TransactionLogValue(
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        producer_epoch=found.producer_epoch,
        transaction_timeout_ms=found.transaction_timeout_ms,
        transaction_status=_TRANSACTION_STATES[found.state],
        transaction_partitions=None if found.state == "Empty" else partitions,
        transaction_last_update_timestamp_ms=found.last_update_ms,
        transaction_start_timestamp_ms=found.start_time_ms,
        client_transaction_version=_CLIENT_TRANSACTION_VERSION,
    )
    return _versioned(forms.TRANSACTION_LOG_VALUE, value, _TRANSACTION_VERSION)


def _versioned(message: Message[Any], value: object, version: int) -> bytes:
    return version.to_bytes(_VERSION_SIZE) + message.write(value, version)
