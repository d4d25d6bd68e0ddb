"""Committed offsets: who may write them (fenced members may not, KIP-447) and who reads what."""

from collections.abc import Iterable

from controlplane.errors import ErrorCode
from controlplane.groups.consumer.group import ConsumerGroup
from controlplane.groups.live import LiveGroup
from controlplane.groups.membership import find_member_error
from controlplane.groups.offsets import OffsetsOfGroup, key_of
from controlplane.groups.states import GroupState
from controlplane.groups.turn import Turn
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.group_records_pb2 import GroupRecord, OffsetsWritten, TxnOffsetsPended
from controlplane.v1.groups_pb2 import (
    CommittedOffset,
    FetchedGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetsCommitted,
    OffsetsFetched,
    TxnOffsetCommit,
)

_NO_OFFSET = -1


def decide_commit(turn: Turn, command: OffsetCommit) -> Reply:
    """Keep offsets at once. Only a standalone commit may create its group (GROUP_ID_NOT_FOUND)."""
    group = turn.groups.find(command.group_id, turn.now_ms)
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        error_code = _find_consumer_writer_error(consumer, command)
    else:
        error_code = _find_writer_error(group, command)
    if error_code:
        return _refused(command.offsets, error_code)
    if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        group.expect_heartbeat(group.members[command.member_id], turn.now_ms)
    written, error_codes = _sort_out(turn, command.offsets)
    if written:
        record = OffsetsWritten(
            group_id=command.group_id, offsets=written, written_at_ms=turn.now_ms
        )
        turn.records.append(GroupRecord(offsets_written=record))
    return Reply(offsets_committed=OffsetsCommitted(error_codes=error_codes))


def decide_txn_commit(turn: Turn, command: TxnOffsetCommit) -> Reply:
    """Keep offsets until the transaction's outcome. The caller checked the transaction itself."""
    if not command.group_id:
        return _refused(command.offsets, ErrorCode.INVALID_GROUP_ID)
    group = turn.groups.find(command.group_id, turn.now_ms)
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        error_code = _find_consumer_txn_writer_error(consumer, command)
    else:
        error_code = _find_txn_writer_error(group, command)
    if error_code:
        return _refused(command.offsets, error_code)
    written, error_codes = _sort_out(turn, command.offsets)
    if written:
        record = TxnOffsetsPended(
            producer_id=command.producer_id,
            group_id=command.group_id,
            offsets=written,
            written_at_ms=turn.now_ms,
        )
        turn.records.append(GroupRecord(txn_offsets_pended=record))
    return Reply(offsets_committed=OffsetsCommitted(error_codes=error_codes))


def _find_writer_error(group: LiveGroup | None, command: OffsetCommit) -> ErrorCode:
    if group is None:
        is_standalone = command.generation_id < 0
        return ErrorCode.NONE if is_standalone else ErrorCode.GROUP_ID_NOT_FOUND
    if _is_standalone(group, command.generation_id):
        return ErrorCode.NONE
    error_code = _find_generation_error(group, command)
    if error_code:
        return error_code
    if group.state is GroupState.COMPLETING_REBALANCE:
        # It learned of the generation by JoinGroup and has no assignment in it yet.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _find_txn_writer_error(group: LiveGroup | None, command: TxnOffsetCommit) -> ErrorCode:
    if group is None:
        is_standalone = command.generation_id < 0
        return ErrorCode.NONE if is_standalone else ErrorCode.ILLEGAL_GENERATION
    if _is_standalone(group, command.generation_id) or not _names_member(command):
        return ErrorCode.NONE
    return _find_generation_error(group, command)


def _find_consumer_writer_error(group: ConsumerGroup, command: OffsetCommit) -> ErrorCode:
    member = group.members.get(command.member_id)
    if member is not None and not member.is_classic and not command.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _find_epoch_error(group, command.member_id, command.generation_id)


def _find_consumer_txn_writer_error(group: ConsumerGroup, command: TxnOffsetCommit) -> ErrorCode:
    if not _names_member(command):
        return ErrorCode.NONE
    error_code = _find_epoch_error(group, command.member_id, command.generation_id)
    is_stale = error_code is ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION if is_stale else error_code


def _names_member(command: TxnOffsetCommit) -> bool:
    """Before TxnOffsetCommit v3 nobody did; the producer's epoch fences those."""
    return bool(command.generation_id >= 0 or command.member_id or command.group_instance_id)


def _find_epoch_error(group: ConsumerGroup, member_id: str, member_epoch: int) -> ErrorCode:
    """Whether a member of a consumer group is up to date; anybody is while there are no members."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.current.member_epoch:
        return ErrorCode.NONE
    is_classic = member.is_classic
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _is_standalone(group: LiveGroup, generation_id: int) -> bool:
    """An admin client, or a consumer that assigns to itself: welcome while there are no members."""
    return generation_id < 0 and group.state is GroupState.EMPTY


def _find_generation_error(group: LiveGroup, command: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    error_code = find_member_error(group, command.member_id, command.group_instance_id)
    if error_code:
        return error_code
    if command.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def _sort_out(
    turn: Turn, offsets: Iterable[CommittedOffset]
) -> tuple[list[CommittedOffset], list[int]]:
    """Those that can be kept, and an error code for each that was sent."""
    error_codes = [_find_offset_error(turn, offset) for offset in offsets]
    written = [
        CommittedOffset(
            partition=offset.partition,
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )
        for offset, error_code in zip(offsets, error_codes, strict=True)
        if not error_code
    ]
    return written, [int(error_code) for error_code in error_codes]


def _find_offset_error(turn: Turn, offset: CommittedOffset) -> ErrorCode:
    partition = offset.partition
    if not turn.partition_exists(partition.topic_id, partition.partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(offset.metadata) > turn.groups.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def decide_fetch(turn: Turn, command: OffsetFetch) -> Reply:
    """Committed offsets; with require_stable those that a transaction may change are withheld."""
    groups = [_fetch_group(turn, entry, command.require_stable) for entry in command.groups]
    return Reply(offsets_fetched=OffsetsFetched(groups=groups))


def _fetch_group(turn: Turn, entry: OffsetFetchGroup, require_stable: bool) -> FetchedGroup:
    consumer = turn.groups.consumers.get(entry.group_id)
    if consumer is not None and (entry.member_id or entry.member_epoch > 0):
        error_code = _find_epoch_error(consumer, entry.member_id, entry.member_epoch)
        if error_code:
            return FetchedGroup(error_code=error_code)
    kept = turn.groups.offsets.committed.get(entry.group_id, {})
    partitions: Iterable[TopicPartition] = entry.partitions
    if entry.all_partitions:
        partitions = [TopicPartition(topic_id=key[0], partition=key[1]) for key in sorted(kept)]
    offsets = [
        _fetch_offset(turn, entry.group_id, kept, partition, require_stable)
        for partition in partitions
    ]
    return FetchedGroup(offsets=offsets)


def _fetch_offset(
    turn: Turn,
    group_id: str,
    kept: OffsetsOfGroup,
    partition: TopicPartition,
    require_stable: bool,
) -> CommittedOffset:
    key = key_of(partition)
    nothing = CommittedOffset(partition=partition, offset=_NO_OFFSET, leader_epoch=-1)
    if require_stable and turn.groups.offsets.is_pending(group_id, key):
        nothing.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return nothing
    stored = kept.get(key)
    return nothing if stored is None else stored.to_committed(key)


def _refused(offsets: Iterable[CommittedOffset], error_code: ErrorCode) -> Reply:
    error_codes = [int(error_code) for _ in offsets]
    return Reply(offsets_committed=OffsetsCommitted(error_code=error_code, error_codes=error_codes))
