"""Members of share groups (KIP-932): ShareGroupHeartbeat, ShareGroupDescribe, and the end of sessions.

Membership works as in consumer groups, but members share partitions, so a member receives its target immediately and
revokes nothing. When a member leaves, the records that it held become available again.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import SHARE_HEARTBEAT_INTERVAL
from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.state.groups.consumer.assignments import write_assignment
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup, Draft
from lacuna.controlplane.state.groups.consumer.live import LiveConsumerGroup
from lacuna.controlplane.state.groups.consumer.member import Current, Member, shared_names
from lacuna.controlplane.state.groups.consumer.states import JOINING_EPOCH, LEAVING_EPOCH
from lacuna.controlplane.state.groups.live import SIZE_OF_NAME
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
    ConsumerGroupsDescribed,
    ConsumerGroupStep,
    DescribeConsumerGroups,
    DescribedConsumerGroup,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.verbs.groups.consumer import finding
from lacuna.controlplane.verbs.groups.consumer.advance import subscribers_of, take_account
from lacuna.controlplane.verbs.groups.consumer.assignors import assign_simple
from lacuna.controlplane.verbs.groups.share_records import release_members
from lacuna.controlplane.verbs.parts import until_full
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: Kafka's name of the only assignor.
SIMPLE: Final = "simple"
#: Kafka's group.share.max.size.
_MOST_MEMBERS: Final = 200


def share_group_heartbeat(turn: Turn, command: ConsumerGroupHeartbeat) -> Reply:
    try:
        _check(command)
        is_leaving = command.member_epoch == LEAVING_EPOCH
        answered = _leave(turn, command) if is_leaving else _beat(turn, command)
    except Refused as refused:
        answered = ConsumerGroupHeartbeatAnswered(
            error_code=refused.code, error_message=refused.message
        )
    return Reply(share_group_heartbeat_answered=answered)


def _check(command: ConsumerGroupHeartbeat) -> None:
    """Raise Refused for requests that are invalid regardless of the group's state."""
    if not command.member_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not command.group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if command.HasField("rack_id") and not command.rack_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if command.member_epoch == JOINING_EPOCH and not command.topic_names:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."
        )
    if command.member_epoch < LEAVING_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def find_share_group(turn: Turn, group_id: str) -> ConsumerGroup:
    """Return the members of a share group. Raises Refused if there is no such group."""
    share = turn.groups.shares.get(group_id)
    if share is None:
        raise finding.no_group(turn, group_id, "share")
    return share.group


def make_share_group(turn: Turn, group_id: str) -> None:
    """Create an empty share group, in which an operator can set offsets. Raises Refused if there is no room."""
    if not turn.groups.has_room(group_id, SIZE_OF_NAME + len(group_id), turn.principal):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            "Groups have used up groups.max.bytes, or a principal's share (principal.max.percent): delete some groups.",
        )
    _keep(turn, Draft(group_id, None))


def _beat(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatAnswered:
    group_id, member_id = command.group_id, command.member_id
    is_joining = command.member_epoch == JOINING_EPOCH
    if is_joining and not turn.groups.exists(group_id):
        draft = Draft(group_id, None)
    else:
        draft = Draft(group_id, find_share_group(turn, group_id))
    if len(draft.members) >= _MOST_MEMBERS and member_id not in draft.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {_MOST_MEMBERS} members.",
        )
    if is_joining:
        before = draft.members.get(member_id) or Member(member_id=member_id)
    else:
        before = finding.find_dynamic(draft, member_id)
    _check_epoch(before, command.member_epoch)
    has_heard = finding.has_heard(turn, draft, member_id)
    member = _updated(before, command)
    is_new = member_id not in draft.members
    finding.put_within_bounds(turn, draft, member)
    names = member.subscription.topic_names
    take_account(turn, draft, has_changed=is_new or names != before.subscription.topic_names)
    _assign_if_stale(turn, draft)
    member = draft.members[member_id]
    live = _keep(turn, draft)
    live.expect_heartbeat(member, turn.groups.session_timeout_ms(group_id), turn.now_ms)
    live.answered_over[member_id] = turn.context.session
    answered = ConsumerGroupHeartbeatAnswered(
        member_id=member_id,
        member_epoch=member.current.member_epoch,
        heartbeat_interval_ms=turn.groups.number(group_id, SHARE_HEARTBEAT_INTERVAL),
    )
    has_changed = member.current.assigned != before.current.assigned
    has_missed = command.member_epoch != member.current.member_epoch
    if is_joining or command.has_topic_names or has_changed or has_missed or not has_heard:
        answered.has_assignment = True
        answered.assignment.extend(write_assignment(member.current.assigned))
    return answered


def _check_epoch(member: Member, member_epoch: int) -> None:
    """Raise Refused unless the member is joining, or the epoch is its current or previous one."""
    current = member.current
    known = (JOINING_EPOCH, current.member_epoch, current.previous_member_epoch)
    if member_epoch not in known:
        raise finding.fenced("share", member_epoch, current.member_epoch)


def _updated(member: Member, command: ConsumerGroupHeartbeat) -> Member:
    """Return the member with its new subscription. Absent fields keep their values."""
    before = member.subscription
    subscription = replace(
        before,
        rack_id=command.rack_id if command.HasField("rack_id") else before.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        topic_names=(
            shared_names(command.topic_names) if command.has_topic_names else before.topic_names
        ),
    )
    return member if subscription == before else replace(member, subscription=subscription)


def _assign_if_stale(turn: Turn, draft: Draft) -> None:
    """Give all members new targets and assignments if the assignment epoch is behind the group's epoch.

    Nothing has to be revoked first, so all members enter the new epoch immediately, and learn of it from their next
    heartbeats.
    """
    if draft.group_epoch <= draft.assignment_epoch:
        return
    draft.retarget(assign_simple(*subscribers_of(turn, draft)))
    for member in list(draft.members.values()):
        current = Current(
            member_epoch=draft.assignment_epoch,
            previous_member_epoch=member.current.member_epoch,
            assigned=member.target,
        )
        draft.put(replace(member, current=current))


def _keep(turn: Turn, draft: Draft) -> LiveConsumerGroup:
    """Journal the draft's changes, and return the group's deadlines."""
    step = draft.to_step()
    if step is not None:
        turn.journal_group(GroupRecord(share_group_step=step))
    if draft.base is None:
        live = LiveConsumerGroup(moved_ms=turn.groups.live.moved_ms)
        turn.groups.live_consumers[draft.group_id] = live
    else:
        live = turn.groups.open_consumer(draft.base, turn.now_ms)
    if draft.topics_version is not None:
        live.topics_version = draft.topics_version
    for member_id in draft.changed.keys() - draft.members.keys():
        live.forget(member_id)
    return live


def _leave(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatAnswered:
    draft = Draft(command.group_id, find_share_group(turn, command.group_id))
    member = finding.find_dynamic(draft, command.member_id)
    _put_out(turn, draft, {member.member_id})
    return ConsumerGroupHeartbeatAnswered(member_id=command.member_id, member_epoch=LEAVING_EPOCH)


def _put_out(turn: Turn, draft: Draft, member_ids: Collection[str]) -> None:
    """Remove members that leave or are silent, and release their records."""
    for member_id in sorted(member_ids):
        draft.remove(member_id)
    take_account(turn, draft, has_changed=True)
    _keep(turn, draft)
    release_members(turn, draft.group_id, member_ids)


def end_overdue_share_members(turn: Turn) -> None:
    groups = turn.groups
    for group_id, share in finding.possibly_overdue(turn, groups.shares, groups.live_consumers):
        live = groups.open_consumer(share.group, turn.now_ms)
        if present := live.overdue(turn.now_ms) & share.group.members.keys():
            _put_out(turn, Draft(group_id, share.group), present)
        live.refresh_due()


def describe_share_groups(turn: Turn, command: DescribeConsumerGroups) -> Reply:
    """Describe share groups and their members. Other groups fail with GROUP_ID_NOT_FOUND."""
    groups = until_full(command.group_ids, lambda group_id: _describe(turn, group_id))
    return Reply(share_groups_described=ConsumerGroupsDescribed(groups=groups))


def _describe(turn: Turn, group_id: str) -> DescribedConsumerGroup:
    try:
        group = find_share_group(turn, group_id)
    except Refused as refused:
        code = refused.code if group_id else ErrorCode.INVALID_GROUP_ID
        return DescribedConsumerGroup(
            group_id=group_id, error_code=code, error_message=refused.message
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        state=turn.groups.shares[group_id].state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=SIMPLE,
        members=[member.described() for member in group.members.values()],
    )


def replay_share_group_step(state: State, record: ConsumerGroupStep, _now_ms: int) -> None:
    state.groups.take_share_step(record)


VERBS: Final = (
    Verb(share_group_heartbeat, looks=True),
    Verb(describe_share_groups, looks=True, needs=QUESTIONS["describe_share_groups"]),
)
REPLAYS: Final = (replay_share_group_step,)
