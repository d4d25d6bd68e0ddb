"""DescribeGroups (classic groups), ListGroups and DeleteGroups (groups of all kinds)."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.parts import MOST_LISTED
from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.state.groups.live import LiveGroup, LiveMember
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.settings import OFFSETS_PER_TICK
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupDeleted, GroupRecord
from lacuna.controlplane.v1.groups_pb2 import (
    DeleteGroups,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    GroupsDeleted,
    GroupsDescribed,
    GroupsListed,
    ListedGroup,
    ListGroups,
)
from lacuna.controlplane.verbs import internal
from lacuna.controlplane.verbs.groups.consumer.finding import no_group
from lacuna.controlplane.verbs.parts import following, until_full
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"


def describe_groups(turn: Turn, command: DescribeGroups) -> Reply:
    """Describe classic groups and their members. A missing group is described as Dead, with GROUP_ID_NOT_FOUND."""
    groups = until_full(command.group_ids, lambda group_id: _describe(turn, group_id))
    return Reply(groups_described=GroupsDescribed(groups=groups))


def _describe(turn: Turn, group_id: str) -> DescribedGroup:
    group = turn.groups.find(group_id, turn.now_ms)
    if group is None:
        refused = no_group(turn, group_id, "classic")
        return DescribedGroup(
            group_id=group_id,
            error_code=refused.code,
            error_message=refused.message,
            state=GroupState.DEAD,
        )
    # During a rebalance, the protocol and the assignments are not settled, so they are not shown.
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name if is_stable else "",
        members=[_describe_member(group, member) for member in group.members.values()],
    )


def _describe_member(group: LiveGroup, member: LiveMember) -> DescribedMember:
    is_stable = group.state is GroupState.STABLE
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata_of(group.protocol_name) if is_stable else b"",
        assignment=member.assignment if is_stable else b"",
    )


def list_groups(turn: Turn, command: ListGroups) -> Reply:
    """List the groups that match one of the states and one of the types, ignoring case. An empty list matches all."""
    states = {state.lower() for state in command.states}
    types = {group_type.lower() for group_type in command.types}
    after = command.after if command.HasField("after") else None
    ids, next_after = following(turn.groups.group_ids(), after, MOST_LISTED)
    listed = [_list(turn, group_id) for group_id in ids]
    groups = [
        group
        for group in listed
        if (not states or group.state.lower() in states)
        and (not types or group.group_type in types)
    ]
    return Reply(groups_listed=GroupsListed(groups=groups, next_after=next_after))


def _list(turn: Turn, group_id: str) -> ListedGroup:
    groups = turn.groups
    modern = ((SHARE, groups.shares), (STREAMS, groups.streams), (CONSUMER, groups.consumers))
    for kind, of_kind in modern:
        if group_id in of_kind:
            state: str = of_kind[group_id].state
            return ListedGroup(group_id=group_id, protocol_type=kind, state=state, group_type=kind)
    group = groups.open(group_id, turn.now_ms)
    return ListedGroup(
        group_id=group_id,
        protocol_type=group.protocol_type,
        state=group.state,
        group_type=CLASSIC,
    )


def delete_groups(turn: Turn, command: DeleteGroups) -> Reply:
    """Delete groups without members, along with their offsets.

    After about OFFSETS_PER_TICK deleted offsets, the remaining groups are skipped and must be requested again.
    """
    deleted: set[str] = set()
    error_codes: list[ErrorCode] = []
    left = OFFSETS_PER_TICK
    for group_id in command.group_ids:
        error_codes.append(_delete(turn, group_id, deleted))
        left -= len(turn.groups.offsets.committed.get(group_id, ()))
        if left <= 0:
            break
    return Reply(groups_deleted=GroupsDeleted(error_codes=error_codes))


def _delete(turn: Turn, group_id: str, deleted: set[str]) -> ErrorCode:
    if group_id in deleted or not turn.groups.exists(group_id):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if turn.groups.is_modern(group_id):
        if turn.groups.members_of(group_id):
            return ErrorCode.NON_EMPTY_GROUP
    else:
        group = turn.groups.open(group_id, turn.now_ms)
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        group.transition_to(GroupState.DEAD)
    deleted.add(group_id)
    turn.journal_group(GroupRecord(group_deleted=GroupDeleted(group_id=group_id)))
    return ErrorCode.NONE


def replay_group_deleted(state: State, record: GroupDeleted, now_ms: int) -> None:
    groups, group_id = state.groups, record.group_id
    groups.forget(group_id)
    groups.offsets.forget_group(group_id, state.topic_name, now_ms)
    internal.drop_group(state, group_id, now_ms)


VERBS: Final = (
    Verb(describe_groups, looks=True, needs=QUESTIONS["describe_groups"]),
    Verb(list_groups, looks=True, needs=QUESTIONS["list_groups"]),
    Verb(delete_groups),
)
REPLAYS: Final = (replay_group_deleted,)
