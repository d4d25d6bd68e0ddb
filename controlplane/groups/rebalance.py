"""A rebalance from its cause to the next generation.

prepare_rebalance: everybody has to join again ─► complete_join: the next generation, all sync
                                              └──► nobody is left: Empty
"""

from controlplane.errors import ErrorCode
from controlplane.groups.live import LiveGroup, LiveMember
from controlplane.groups.states import REBALANCEABLE, GroupState
from controlplane.groups.turn import Turn
from controlplane.v1.groups_pb2 import GroupJoined, GroupSynced, JoinedMember


def rebalance_or_complete(turn: Turn, group: LiveGroup) -> None:
    """Begin a rebalance, or end the joining of the one that runs if nobody is missing."""
    if group.state in REBALANCEABLE:
        prepare_rebalance(turn, group)
    else:
        complete_join_if_all(turn, group)


def prepare_rebalance(turn: Turn, group: LiveGroup) -> None:
    """Have every member join again; wait as long as the most patient one allows."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        _answer_syncs(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    group.sync_deadline_ms = None
    group.is_initial_rebalance = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE)
    if group.is_initial_rebalance:
        _prepare_initial(turn, group)
    elif group.have_all_joined():
        complete_join(turn, group)
    else:
        _await_joins(turn, group, group.rebalance_timeout_ms())


def complete_join_if_all(turn: Turn, group: LiveGroup) -> None:
    """End the joining if nobody is missing; the first rebalance of a group has its own delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and not group.is_initial_rebalance
        and group.have_all_joined()
    ):
        complete_join(turn, group)


def end_joining(turn: Turn, group: LiveGroup) -> None:
    """The joining's deadline has passed: go on with who is there, or put the first one off."""
    delay_ms = turn.groups.settings.group_initial_rebalance_delay_ms
    if group.is_initial_rebalance and group.has_new_member and group.initial_remaining_ms > 0:
        group.has_new_member = False
        delay_ms = min(delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms -= delay_ms
        _await_joins(turn, group, delay_ms)
    else:
        complete_join(turn, group)


def complete_join(turn: Turn, group: LiveGroup) -> None:
    """Make the next generation of those who joined; dynamic members who did not are out."""
    group.join_deadline_ms = None
    for member in list(group.members.values()):
        if member.join_token is None and not member.group_instance_id:
            group.remove(member.member_id)
    if not group.members:
        _become_empty(turn, group)
    elif not group.elect_joined_leader():
        # Only static members are left and none is back yet: wait until they are, or time out.
        _await_joins(turn, group, group.rebalance_timeout_ms())
    else:
        _begin_generation(turn, group)


def end_syncing(turn: Turn, group: LiveGroup) -> None:
    """The deadline of SyncGroups has passed: who sent none is out."""
    group.sync_deadline_ms = None
    for member_id in sorted(group.pending_syncs):
        remove_member(turn, group, member_id)
    prepare_rebalance(turn, group)


def remove_member(turn: Turn, group: LiveGroup, member_id: str) -> None:
    """Take a member out; whatever it waits for is answered, so that its client joins anew."""
    member = group.members[member_id]
    group.remove(member_id)
    turn.answer_join(member, GroupJoined(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    turn.answer_sync(member, GroupSynced(error_code=ErrorCode.UNKNOWN_MEMBER_ID))


def joined_reply(group: LiveGroup, member: LiveMember) -> GroupJoined:
    """The current generation as this member is to see it; only the leader sees all members."""
    members = joined_members(group) if member.member_id == group.leader else []
    return GroupJoined(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader,
        member_id=member.member_id,
        members=members,
    )


def joined_members(group: LiveGroup) -> list[JoinedMember]:
    """What the leader needs to assign."""
    return [
        JoinedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_of(group.protocol_name),
        )
        for member in group.members.values()
    ]


def synced_reply(group: LiveGroup, member: LiveMember) -> GroupSynced:
    """A member's assignment."""
    return GroupSynced(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def stabilize(turn: Turn, group: LiveGroup, assignments: dict[str, bytes]) -> None:
    """Take the leader's assignment, journal the generation and hand everybody its part."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.transition_to(GroupState.STABLE)
    turn.keep(group.to_generation(turn.now_ms))
    _answer_syncs(turn, group, ErrorCode.NONE)


def _prepare_initial(turn: Turn, group: LiveGroup) -> None:
    delay_ms = turn.groups.settings.group_initial_rebalance_delay_ms
    group.has_new_member = False
    group.initial_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
    if delay_ms == 0:
        complete_join(turn, group)
    else:
        _await_joins(turn, group, delay_ms)


def _await_joins(turn: Turn, group: LiveGroup, timeout_ms: int) -> None:
    group.join_deadline_ms = turn.now_ms + timeout_ms
    group.note_due(group.join_deadline_ms)


def _become_empty(turn: Turn, group: LiveGroup) -> None:
    group.generation_id += 1
    group.protocol_name = ""
    group.is_initial_rebalance = False
    group.transition_to(GroupState.EMPTY)
    turn.keep(group.to_generation(turn.now_ms))


def _begin_generation(turn: Turn, group: LiveGroup) -> None:
    group.generation_id += 1
    group.protocol_name = group.select_protocol()
    group.is_initial_rebalance = False
    group.transition_to(GroupState.COMPLETING_REBALANCE)
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        member.is_new = False
        turn.answer_join(member, joined_reply(group, member))
        group.expect_heartbeat(member, turn.now_ms)
    group.sync_deadline_ms = turn.now_ms + group.rebalance_timeout_ms()
    group.note_due(group.sync_deadline_ms)


def _answer_syncs(turn: Turn, group: LiveGroup, error_code: ErrorCode) -> None:
    for member in group.members.values():
        synced = GroupSynced(error_code=error_code) if error_code else synced_reply(group, member)
        if turn.answer_sync(member, synced):
            group.expect_heartbeat(member, turn.now_ms)
