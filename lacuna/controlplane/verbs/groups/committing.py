"""OffsetCommit, TxnOffsetCommit and OffsetFetch, with the checks that fence stale members (KIP-447)."""

from collections.abc import Iterable, Sequence
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of, named
from lacuna.controlplane.shared.parts import MOST_AT_ONCE, MOST_LISTED
from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.offsets import OffsetsOfGroup, size_of_offset
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.groups.streams import StreamsGroup
from lacuna.controlplane.state.settings import MOST_OF_TRANSACTION
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import Outcomes, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord, OffsetsWritten, TxnOffsetsPended
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    FetchedGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetsFetched,
    TxnOffsetCommit,
)
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.groups.membership import find_member_error
from lacuna.controlplane.verbs.parts import following
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

_NO_OFFSET = -1


@of_one_group
def offset_commit(turn: Turn, command: OffsetCommit) -> Reply:
    """Commit offsets. Without a generation, a missing group is created; otherwise, the error is GROUP_ID_NOT_FOUND."""
    group = turn.groups.find(command.group_id, turn.now_ms)
    error_code = _find_writer_error(turn, group, command)
    if error_code:
        return _refused(command.offsets, error_code)
    if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        group.expect_heartbeat(group.members[command.member_id], turn.now_ms)
    written, error_codes = _sort_out(turn, command)
    if written:
        record = OffsetsWritten(
            group_id=command.group_id, offsets=written, written_at_ms=turn.now_ms
        )
        turn.journal_group(GroupRecord(offsets_written=record))
    return Reply(offsets_committed=Outcomes(error_codes=error_codes))


def commit_in_transaction(turn: Turn, command: TxnOffsetCommit) -> Reply:
    """Store offsets as pending until the transaction ends. The caller has already checked the transaction."""
    if not command.group_id:
        return _refused(command.offsets, ErrorCode.INVALID_GROUP_ID)
    group = turn.groups.find(command.group_id, turn.now_ms)
    error_code = _find_writer_error(turn, group, command)
    if error_code:
        return _refused(command.offsets, error_code)
    written, error_codes = _sort_out(turn, command)
    if written:
        record = TxnOffsetsPended(
            producer_id=command.producer_id,
            group_id=command.group_id,
            offsets=written,
            written_at_ms=turn.now_ms,
        )
        turn.journal_group(GroupRecord(txn_offsets_pended=record))
    return Reply(offsets_committed=Outcomes(error_codes=error_codes))


def _find_writer_error(
    turn: Turn, group: LiveGroup | None, command: OffsetCommit | TxnOffsetCommit
) -> ErrorCode:
    """Return an error code unless the sender may commit. `group` is the classic group of this id, if there is one."""
    if command.group_id in turn.groups.shares:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(command, TxnOffsetCommit) and not _names_member(command):
        return ErrorCode.NONE
    streams = turn.groups.streams.get(command.group_id)
    if streams is not None:
        return _find_streams_writer_error(turn, streams, command)
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        return _find_consumer_writer_error(consumer, command)
    return _find_classic_writer_error(group, command)


def _find_classic_writer_error(
    group: LiveGroup | None, command: OffsetCommit | TxnOffsetCommit
) -> ErrorCode:
    if group is None:
        is_standalone = command.generation_id < 0
        return ErrorCode.NONE if is_standalone else ErrorCode.GROUP_ID_NOT_FOUND
    if _is_standalone(group, command.generation_id):
        return ErrorCode.NONE
    error_code = _find_generation_error(group, command)
    if error_code or isinstance(command, TxnOffsetCommit):
        return error_code
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the generation from JoinGroup, but has no assignment in it yet.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _find_consumer_writer_error(
    group: ConsumerGroup, command: OffsetCommit | TxnOffsetCommit
) -> ErrorCode:
    member = group.members.get(command.member_id)
    is_modern = member is not None and not member.is_classic
    if is_modern and isinstance(command, OffsetCommit) and not command.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _find_epoch_error(group, command.member_id, command.generation_id, command.offsets)


def _find_streams_writer_error(
    turn: Turn, group: StreamsGroup, command: OffsetCommit | TxnOffsetCommit
) -> ErrorCode:
    """Return an error code unless the member may commit these offsets.

    An earlier epoch is sufficient for tasks that the member has had ever since.
    """
    epoch = command.generation_id
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(command, OffsetCommit) and not command.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    current = member.current
    if epoch == current.member_epoch:
        return ErrorCode.NONE
    held = {**current.revoking.active, **current.assigned.active}
    for offset in command.offsets:
        name = turn.topics.name_of(offset.partition.topic_id) or ""
        since = held.get((group.sources.get(name, ""), offset.partition.partition))
        if since is None or not since <= epoch < current.member_epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.NONE


def _names_member(command: TxnOffsetCommit) -> bool:
    """Whether the command names a member. Before v3, TxnOffsetCommit relies on the producer epoch for fencing."""
    return bool(command.generation_id >= 0 or command.member_id or command.group_instance_id)


def _find_epoch_error(
    group: ConsumerGroup | StreamsGroup,
    member_id: str,
    member_epoch: int,
    offsets: Sequence[CommittedOffset] = (),
) -> ErrorCode:
    """Return an error code unless the epoch is current, or is absent and the group has no members.

    An earlier epoch suffices for `offsets` if the member has owned all their partitions ever since (KIP-1251).
    """
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.current.member_epoch:
        return ErrorCode.NONE
    is_old = 0 <= member_epoch < member.current.member_epoch
    if isinstance(group, ConsumerGroup) and offsets and is_old:
        taken = group.members[member_id].current.taken_epochs()
        at = (taken.get(key_of(each.partition)) for each in offsets)
        if all(epoch is not None and epoch <= member_epoch for epoch in at):
            return ErrorCode.NONE
    is_classic = isinstance(group, ConsumerGroup) and group.members[member_id].is_classic
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _is_standalone(group: LiveGroup, generation_id: int) -> bool:
    """Whether the group is empty, and the commit comes from an admin client or a standalone consumer."""
    return generation_id < 0 and group.state is GroupState.EMPTY


def _find_generation_error(group: LiveGroup, command: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    error_code = find_member_error(group, command.member_id, command.group_instance_id)
    if error_code:
        return error_code
    if command.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def _sort_out(
    turn: Turn, command: OffsetCommit | TxnOffsetCommit
) -> tuple[list[CommittedOffset], list[int]]:
    """Return the offsets that can be stored, and an error code for each offset in the command."""
    offsets = command.offsets
    has_room = _has_room(turn, command)
    error_codes = [_find_offset_error(turn, offset, has_room=has_room) for offset in offsets]
    written = [
        CommittedOffset(
            partition=offset.partition,
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            retention_ms=max(0, offset.retention_ms) if offset.HasField("retention_ms") else None,
        )
        for offset, error_code in zip(offsets, error_codes, strict=True)
        if not error_code
    ]
    return written, [int(error_code) for error_code in error_codes]


def _replaced(turn: Turn, command: OffsetCommit | TxnOffsetCommit) -> OffsetsOfGroup:
    """Return the stored offsets that the command updates: committed ones, or those staged in its transaction."""
    offsets = turn.groups.offsets
    if isinstance(command, TxnOffsetCommit):
        return offsets.pending.get(command.producer_id, {}).get(command.group_id, {})
    return offsets.committed.get(command.group_id, {})


def _has_room(turn: Turn, command: OffsetCommit | TxnOffsetCommit) -> bool:
    if isinstance(command, TxnOffsetCommit):
        staged = turn.groups.offsets.pending.get(command.producer_id, {}).values()
        new = {key_of(each.partition) for each in command.offsets} - _replaced(turn, command).keys()
        if sum(map(len, staged)) + len(new) > MOST_OF_TRANSACTION:
            return False
    return turn.groups.has_room(command.group_id, _growth(turn, command), turn.principal)


def _growth(turn: Turn, command: OffsetCommit | TxnOffsetCommit) -> int:
    """Return the number of bytes by which the new offsets exceed the ones they replace."""
    kept = _replaced(turn, command)
    replaced = (kept.get(key_of(each.partition)) for each in command.offsets)
    before = sum(each.size for each in replaced if each is not None)
    return sum(map(size_of_offset, command.offsets)) - before


def _find_offset_error(turn: Turn, offset: CommittedOffset, *, has_room: bool) -> ErrorCode:
    partition = offset.partition
    key = key_of(partition)
    if key not in turn.state.partitions and turn.state.internal.find(key) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(offset.metadata) > turn.groups.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE if has_room else ErrorCode.INVALID_COMMIT_OFFSET_SIZE


def offset_fetch(turn: Turn, command: OffsetFetch) -> Reply:
    """Return committed offsets.

    With require_stable, offsets that an open transaction may replace fail with UNSTABLE_OFFSET_COMMIT.
    """
    if sum(len(each.partitions) for each in command.groups) > MOST_AT_ONCE:
        raise MalformedCommand(f"one command may name at most {MOST_AT_ONCE} partitions")
    groups: list[FetchedGroup] = []
    left = MOST_LISTED
    for entry in command.groups:
        groups.append(_fetch_group(turn, entry, command.require_stable, left))
        left -= 1 + len(groups[-1].offsets)
        if left <= 0:
            break
    return Reply(offsets_fetched=OffsetsFetched(groups=groups))


def _fetch_group(
    turn: Turn, entry: OffsetFetchGroup, require_stable: bool, most: int
) -> FetchedGroup:
    """Return the requested offsets of a group, or at most `most` if the command requests all partitions."""
    if entry.group_id in turn.groups.shares:
        return FetchedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    consumer = turn.groups.consumers.get(entry.group_id) or turn.groups.streams.get(entry.group_id)
    if consumer is not None and (entry.member_id or entry.member_epoch > 0):
        error_code = _find_epoch_error(consumer, entry.member_id, entry.member_epoch)
        if error_code:
            return FetchedGroup(error_code=error_code)
    kept = turn.groups.offsets.committed.get(entry.group_id, {})
    partitions: Iterable[TopicPartition] = entry.partitions
    next_after = None
    if entry.all_partitions:
        after = key_of(entry.after) if entry.HasField("after") else None
        keys, last = following(kept, after, most)
        partitions = map(named, keys)
        next_after = None if last is None else named(last)
    offsets = [
        _fetch_offset(turn, entry.group_id, kept, partition, require_stable)
        for partition in partitions
    ]
    return FetchedGroup(offsets=offsets, next_after=next_after)


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
    return Reply(offsets_committed=Outcomes(error_code=error_code, error_codes=error_codes))


def replay_offsets_written(state: State, record: OffsetsWritten, _now_ms: int) -> None:
    state.groups.offsets.write(record)


def replay_txn_offsets_pended(state: State, record: TxnOffsetsPended, _now_ms: int) -> None:
    state.groups.offsets.pend(record)


VERBS: Final = (
    Verb(offset_commit),
    Verb(offset_fetch, needs=QUESTIONS["offset_fetch"]),
)
REPLAYS: Final = (
    replay_offsets_written,
    replay_txn_offsets_pended,
)
