"""SyncGroup, Heartbeat and LeaveGroup: the requests that members send between joins."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.v1.cluster_pb2 import Outcome, Outcomes
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import (
    GroupSynced,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from lacuna.controlplane.verbs.groups.consumer import classic
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.groups.rebalance import (
    answer_sync,
    complete_join_if_all,
    park,
    rebalance_or_complete,
    remove_member,
    stabilize,
    synced_reply,
)
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def find_member_error(group: LiveGroup, member_id: str, group_instance_id: str) -> ErrorCode:
    """Return NONE if the group has the member, with the instance id if one is given.

    Return FENCED_INSTANCE_ID if another member has the instance id, otherwise UNKNOWN_MEMBER_ID.
    """
    if group_instance_id:
        existing = group.static_members.get(group_instance_id)
        if existing is not None and existing != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if existing is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


@of_one_group
def sync_group(turn: Turn, command: SyncGroup) -> Reply | None:
    """Return the member's assignment, or None to park the command until the leader sends it."""
    if not command.group_id:
        return _synced(ErrorCode.INVALID_GROUP_ID)
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        return classic.sync(turn, consumer, command)
    group = turn.groups.find(command.group_id, turn.now_ms)
    if group is None or group.state is GroupState.EMPTY:
        return _synced(ErrorCode.UNKNOWN_MEMBER_ID)
    error_code = _find_sync_error(group, command)
    if error_code:
        return _synced(error_code)
    if command.member_id == group.leader and not _can_keep(turn, group, command):
        return _synced(ErrorCode.UNKNOWN_SERVER_ERROR)
    member = group.members[command.member_id]
    group.pending_syncs.discard(command.member_id)
    if not group.pending_syncs:
        group.sync_deadline_ms = None
    if group.state is GroupState.STABLE:
        return Reply(group_synced=synced_reply(group, member))
    answer_sync(turn, member, GroupSynced(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_token = park(turn)
    if command.member_id == group.leader:
        assignments = {entry.member_id: entry.assignment for entry in command.assignments}
        stabilize(turn, group, assignments)
    return None


def _can_keep(turn: Turn, group: LiveGroup, command: SyncGroup) -> bool:
    """Whether there is room for the leader's assignments.

    If not, the sync deadline removes the leader, as in Kafka, and another member takes its place.
    """
    settings = turn.groups.settings
    sizes = [
        len(each.assignment) for each in command.assignments if each.member_id in group.members
    ]
    if max(sizes, default=0) > settings.member_metadata_max_bytes:
        return False
    if sum(sizes) > settings.group_metadata_max_bytes:
        return False
    before = turn.groups.sizes.get(group.group_id, 0)
    more = group.metadata_size + sum(sizes) - before
    return turn.groups.has_room(group.group_id, more, turn.principal)


def _find_sync_error(group: LiveGroup, command: SyncGroup) -> ErrorCode:
    error_code = find_member_error(group, command.member_id, command.group_instance_id)
    if error_code:
        return error_code
    if command.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(command.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differ(command.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(given: str, actual: str) -> bool:
    return bool(given) and bool(actual) and given != actual


@of_one_group
def heartbeat(turn: Turn, command: Heartbeat) -> Reply:
    """Restart the member's session. A member that must rejoin receives REBALANCE_IN_PROGRESS."""
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        return classic.heartbeat(turn, consumer, command)
    return Reply(heartbeat_answered=Outcome(error_code=_beat(turn, command)))


def _beat(turn: Turn, command: Heartbeat) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = turn.groups.find(command.group_id, turn.now_ms)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error_code = find_member_error(group, command.member_id, command.group_instance_id)
    if error_code:
        return error_code
    if command.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    group.expect_heartbeat(group.members[command.member_id], turn.now_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


@of_one_group
def leave_group(turn: Turn, command: LeaveGroup) -> Reply:
    """Remove members, and return an error code for each. The remaining members rebalance once."""
    if not command.group_id:
        return Reply(group_left=Outcomes(error_code=ErrorCode.INVALID_GROUP_ID))
    consumer = turn.groups.consumers.get(command.group_id)
    if consumer is not None:
        return classic.leave(turn, consumer, command)
    group = turn.groups.find(command.group_id, turn.now_ms)
    if group is None:
        error_codes = [ErrorCode.UNKNOWN_MEMBER_ID for _ in command.members]
        return Reply(group_left=Outcomes(error_codes=error_codes))
    error_codes = [_leave(turn, group, leaving) for leaving in command.members]
    if ErrorCode.NONE in error_codes:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_complete(turn, group)
        else:
            complete_join_if_all(turn, group)
    return Reply(group_left=Outcomes(error_codes=error_codes))


def _leave(turn: Turn, group: LiveGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        # An operator removes a static member by its instance id alone.
        member_id = group.static_members.get(leaving.group_instance_id, "")
    elif member_id in group.pending_joins:
        group.remove(member_id)
        return ErrorCode.NONE
    error_code = find_member_error(group, member_id, leaving.group_instance_id)
    if not error_code:
        remove_member(turn, group, member_id)
    return error_code


def _synced(error_code: ErrorCode) -> Reply:
    return Reply(group_synced=GroupSynced(error_code=error_code))


VERBS: Final = (
    Verb(sync_group),
    Verb(heartbeat, looks=True),
    Verb(leave_group),
)
