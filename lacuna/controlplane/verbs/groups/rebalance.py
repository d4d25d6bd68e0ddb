"""The rebalance of a classic group, from its cause to the next generation.

    prepare_rebalance: all members must rejoin ─► complete_join: the next generation, all send SyncGroup
                                              └─► no member is left: Empty

A JoinGroup or SyncGroup that waits for other members is parked, and answered in a later turn. Each generation is
journalled as a whole.
"""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import Kind
from lacuna.controlplane.state.groups.live import LiveGroup, LiveMember
from lacuna.controlplane.state.groups.states import REBALANCEABLE, GroupState
from lacuna.controlplane.state.internal import NameKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupRecord
from lacuna.controlplane.v1.groups_pb2 import GroupJoined, GroupSynced, JoinedMember
from lacuna.controlplane.verbs import internal
from lacuna.controlplane.verbs.turn import Turn


def rebalance_or_complete(turn: Turn, group: LiveGroup) -> None:
    """Begin a rebalance, or complete the current one if all members have joined."""
    if group.state in REBALANCEABLE:
        prepare_rebalance(turn, group)
    else:
        complete_join_if_all(turn, group)


def prepare_rebalance(turn: Turn, group: LiveGroup) -> None:
    """Make all members rejoin, within the longest rebalance timeout."""
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
    """Complete the join if all members have joined. An empty group's first rebalance waits for its deadline."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and not group.is_initial_rebalance
        and group.have_all_joined()
    ):
        complete_join(turn, group)


def end_joining(turn: Turn, group: LiveGroup) -> None:
    """Handle the join deadline: complete the join, or extend the first rebalance while members keep joining."""
    delay_ms = turn.groups.settings.group_initial_rebalance_delay_ms
    if group.is_initial_rebalance and group.has_new_member and group.initial_remaining_ms > 0:
        group.has_new_member = False
        delay_ms = min(delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms -= delay_ms
        _await_joins(turn, group, delay_ms)
    else:
        complete_join(turn, group)


def complete_join(turn: Turn, group: LiveGroup) -> None:
    """Begin the next generation with the members that have joined, and remove dynamic members that have not."""
    group.join_deadline_ms = None
    for member in list(group.members.values()):
        if member.join_token is None and not member.group_instance_id:
            group.remove(member.member_id)
    if not group.members:
        _become_empty(turn, group)
    elif not group.elect_joined_leader():
        # Only static members are left, and none has joined yet: wait until they do or their sessions end.
        _await_joins(turn, group, group.rebalance_timeout_ms())
    else:
        _begin_generation(turn, group)


def end_syncing(turn: Turn, group: LiveGroup) -> None:
    """Handle the sync deadline: remove the members that sent no SyncGroup, and rebalance."""
    group.sync_deadline_ms = None
    for member_id in sorted(group.pending_syncs):
        remove_member(turn, group, member_id)
    prepare_rebalance(turn, group)


def remove_member(turn: Turn, group: LiveGroup, member_id: str) -> None:
    """Remove a member, and answer its parked command with UNKNOWN_MEMBER_ID so that its client rejoins."""
    member = group.members[member_id]
    group.remove(member_id)
    answer_join(turn, member, GroupJoined(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    answer_sync(turn, member, GroupSynced(error_code=ErrorCode.UNKNOWN_MEMBER_ID))


def joined_reply(group: LiveGroup, member: LiveMember) -> GroupJoined:
    """Return the response to a member's JoinGroup. Only the leader receives the list of members."""
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
    return [
        JoinedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_of(group.protocol_name),
        )
        for member in group.members.values()
    ]


def synced_reply(group: LiveGroup, member: LiveMember) -> GroupSynced:
    return GroupSynced(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def stabilize(turn: Turn, group: LiveGroup, assignments: dict[str, bytes]) -> None:
    """Store the leader's assignments, journal the generation, and answer the parked SyncGroups."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.transition_to(GroupState.STABLE)
    keep_generation(turn, group.to_generation(turn.now_ms))
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
    keep_generation(turn, group.to_generation(turn.now_ms))


def _begin_generation(turn: Turn, group: LiveGroup) -> None:
    group.generation_id += 1
    group.protocol_name = group.select_protocol()
    group.is_initial_rebalance = False
    group.transition_to(GroupState.COMPLETING_REBALANCE)
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        member.is_new = False
        answer_join(turn, member, joined_reply(group, member))
        group.expect_heartbeat(member, turn.now_ms)
    group.sync_deadline_ms = turn.now_ms + group.rebalance_timeout_ms()
    group.note_due(group.sync_deadline_ms)


def _answer_syncs(turn: Turn, group: LiveGroup, error_code: ErrorCode) -> None:
    for member in group.members.values():
        synced = GroupSynced(error_code=error_code) if error_code else synced_reply(group, member)
        if answer_sync(turn, member, synced):
            group.expect_heartbeat(member, turn.now_ms)


def park(turn: Turn) -> int:
    """Park the current command, and return its token."""
    turn.groups.live.parked.add(turn.context.token)
    return turn.context.token


def answer_join(turn: Turn, member: LiveMember, joined: GroupJoined) -> None:
    """Answer the member's JoinGroup, if it is parked."""
    token, member.join_token = member.join_token, None
    _complete(turn, token, Reply(group_joined=joined))


def answer_sync(turn: Turn, member: LiveMember, synced: GroupSynced) -> bool:
    """Answer the member's SyncGroup, if it is parked, and return whether it was."""
    token, member.sync_token = member.sync_token, None
    _complete(turn, token, Reply(group_synced=synced))
    return token is not None


def _complete(turn: Turn, token: int | None, reply: Reply) -> None:
    if token is None or token not in turn.groups.live.parked:
        return
    turn.groups.live.parked.remove(token)
    turn.completions.append((token, reply))


def keep_generation(turn: Turn, generation: GroupGeneration) -> None:
    turn.journal_group(GroupRecord(group_generation=generation))


def replay_group_generation(state: State, record: GroupGeneration, now_ms: int) -> None:
    internal.drop_consumer_group(state, record.group_id, now_ms)
    state.groups.keep_generation(record)
    key = NameKey(Kind.GENERATION, record.group_id)
    state.internal.write_group(record.group_id, [key], now_ms)


REPLAYS: Final = (replay_group_generation,)
