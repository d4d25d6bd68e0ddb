"""ConsumerGroupHeartbeat: members join, stay and leave (KIP-848).

A heartbeat moves its member by at most one step. It stores the member's subscription, increases the group's epoch if
the subscription or the topics have changed, computes new targets if they are out of date, and moves the member towards
its target. A heartbeat that changes nothing is not journalled.

An answer can be lost on its way to the agent, unnoticed by the client. So a heartbeat that arrives over a different
session than the last one may contain the member's previous epoch, and the response repeats the member's assignment
(adr/0016).
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.consumer.assignments import (
    Assignment,
    read_assignment,
    write_assignment,
)
from lacuna.controlplane.state.groups.consumer.group import Draft
from lacuna.controlplane.state.groups.consumer.live import Deadline
from lacuna.controlplane.state.groups.consumer.member import Member, Subscription, shared_names
from lacuna.controlplane.state.groups.consumer.states import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
)
from lacuna.controlplane.state.groups.consumer.subscriptions import compile_pattern
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.groups.consumer import finding
from lacuna.controlplane.verbs.groups.consumer.advance import (
    ASSIGNORS,
    assign_if_stale,
    keep,
    preferred_assignor,
    take_account,
)
from lacuna.controlplane.verbs.groups.consumer.converting import (
    downgrade,
    end_upgrade,
    is_downgrade,
)
from lacuna.controlplane.verbs.groups.consumer.reconcile import reconcile
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

_SAME = -1  # the rebalance timeout is unchanged
#: The maximum size in bytes of the topic names in a subscription. In Kafka, which keeps the names in one record, it is
#: max.message.bytes.
_LARGEST_SUBSCRIPTION = 1 << 20


@of_one_group
def consumer_group_heartbeat(turn: Turn, command: ConsumerGroupHeartbeat) -> Reply:
    """Decide a heartbeat immediately: this protocol never waits for other members."""
    try:
        _check(command)
        if command.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
            answered = _leave(turn, command)
        else:
            answered = _beat(turn, command)
    except Refused as refused:
        answered = ConsumerGroupHeartbeatAnswered(
            error_code=refused.code, error_message=refused.message
        )
    return Reply(consumer_group_heartbeat_answered=answered)


def _check(command: ConsumerGroupHeartbeat) -> None:
    """Raise Refused for requests that are invalid regardless of the group's state."""
    if not command.group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    is_joining = command.member_epoch == JOINING_EPOCH
    if not command.member_id and (command.needs_member_id or not is_joining):
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if command.HasField("rack_id") and not command.rack_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if command.member_epoch < LEAVING_STATIC_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if command.member_epoch == LEAVING_STATIC_EPOCH and not command.group_instance_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    if is_joining:
        _check_joining(command)
    if sum(len(name) + 1 for name in command.topic_names) > _LARGEST_SUBSCRIPTION:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The {len(command.topic_names)} names in SubscribedTopicNames exceed {_LARGEST_SUBSCRIPTION} bytes. "
            "Use SubscribedTopicRegex instead.",
        )
    assignor = command.server_assignor
    if command.HasField("server_assignor") and assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor[:100]} is not supported. Supported assignors: {known}.",
        )


def _check_joining(command: ConsumerGroupHeartbeat) -> None:
    if command.rebalance_timeout_ms == _SAME:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."
        )
    if not command.has_owned or command.owned:
        raise Refused(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if not command.has_topic_names and not command.HasField("topic_regex"):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )


def _beat(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatAnswered:
    is_joining = command.member_epoch == JOINING_EPOCH
    if is_joining:
        draft = finding.find_or_make_group(turn, command.group_id)
    else:
        draft = Draft(command.group_id, finding.find_group(turn, command.group_id))
    finding.check_room(turn, draft, command.member_id)
    member_id = command.member_id or turn.context.new_id().hex()
    owned = read_assignment(command.owned) if command.has_owned else None
    has_heard = finding.has_heard(turn, draft, member_id)
    before = _find_member(draft, command, member_id, owned, has_heard=has_heard)
    member = _updated(before, command)
    _check_regex(before, member)
    is_new = member_id not in draft.members
    has_changed = is_new or _wants_other_topics(before.subscription, member.subscription)
    has_changed = _put(turn, draft, before, member) or has_changed
    take_account(turn, draft, has_changed=has_changed)
    assign_if_stale(turn, draft)
    if command.member_epoch == before.current.member_epoch:
        known = draft.members[member_id]
        draft.put(reconcile(known, draft.assignment_epoch, draft.owners, owned))
    # Otherwise, it must first receive its last step, or it might be two epochs behind.
    return _end(turn, draft, command, before, has_heard=has_heard)


def _put(turn: Turn, draft: Draft, before: Member, member: Member) -> bool:
    """Add the member. Return whether its vote changes the assignor that most members prefer."""
    if before.subscription.server_assignor == member.subscription.server_assignor:
        finding.put_within_bounds(turn, draft, member)
        return False
    preferred = preferred_assignor(draft.members)
    finding.put_within_bounds(turn, draft, member)
    return preferred_assignor(draft.members) != preferred


def _end(
    turn: Turn,
    draft: Draft,
    command: ConsumerGroupHeartbeat,
    before: Member,
    *,
    has_heard: bool,
) -> ConsumerGroupHeartbeatAnswered:
    """Journal the step, restart the session, and return the answer, with the assignment if the member may lack it."""
    timeout_ms = turn.groups.consumer_session_timeout_ms(draft.group_id)
    member = draft.members[before.member_id]
    live = keep(turn, draft)
    if draft.upgraded is not None:
        end_upgrade(turn, draft.upgraded)
        for each in draft.members.values():
            live.expect_heartbeat(each, timeout_ms, turn.now_ms)
    live.expect_heartbeat(member, timeout_ms, turn.now_ms)
    live.answered_over[member.member_id] = turn.context.session
    for kind in (Deadline.JOIN, Deadline.SYNC):
        live.clear(member.member_id, kind)
    answered = ConsumerGroupHeartbeatAnswered(
        member_id=member.member_id,
        member_epoch=member.current.member_epoch,
        heartbeat_interval_ms=turn.groups.consumer_heartbeat_interval_ms(draft.group_id),
    )
    has_topics = command.has_topic_names or command.HasField("topic_regex")
    is_full = command.rebalance_timeout_ms != _SAME and has_topics and command.has_owned
    is_joining = command.member_epoch == JOINING_EPOCH
    has_changed = member.current.assigned != before.current.assigned
    if is_joining or is_full or has_changed or not has_heard:
        answered.has_assignment = True
        answered.assignment.extend(write_assignment(member.current.assigned))
    return answered


def _find_member(
    draft: Draft,
    command: ConsumerGroupHeartbeat,
    member_id: str,
    owned: Assignment | None,
    *,
    has_heard: bool,
) -> Member:
    """Return the member as it was before this heartbeat, or a new one if it joins. Raises Refused."""
    instance_id = command.group_instance_id
    is_joining = command.member_epoch == JOINING_EPOCH
    if is_joining and instance_id:
        return finding.join_static(
            draft, member_id, instance_id, is_classic=False, has_heard=has_heard
        )
    if is_joining:
        member = draft.members.get(member_id) or Member(member_id=member_id)
    else:
        member = finding.find_member(draft, member_id, instance_id)
    finding.check_epoch(member, command.member_epoch, owned, has_heard=has_heard)
    return member


def _updated(member: Member, command: ConsumerGroupHeartbeat) -> Member:
    """Return the member with its new subscription. Absent fields keep their values."""
    before = member.subscription
    timeout_ms = command.rebalance_timeout_ms
    subscription = Subscription(
        group_instance_id=command.group_instance_id or before.group_instance_id,
        rack_id=command.rack_id if command.HasField("rack_id") else before.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _SAME else timeout_ms,
        server_assignor=(
            command.server_assignor
            if command.HasField("server_assignor")
            else before.server_assignor
        ),
        topic_names=(
            shared_names(command.topic_names) if command.has_topic_names else before.topic_names
        ),
        topic_regex=command.topic_regex if command.HasField("topic_regex") else before.topic_regex,
    )
    if subscription == before:
        return member
    return replace(member, subscription=subscription)


def _check_regex(before: Member, member: Member) -> None:
    topic_regex = member.subscription.topic_regex
    if topic_regex == before.subscription.topic_regex or not topic_regex:
        return
    if compile_pattern(topic_regex) is None:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{topic_regex[:100]}` is not a valid RE2 regular expression.",
        )


def _wants_other_topics(before: Subscription, now: Subscription) -> bool:
    return (before.topic_names, before.topic_regex) != (now.topic_names, now.topic_regex)


def _leave(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatAnswered:
    draft = Draft(command.group_id, finding.find_group(turn, command.group_id))
    member = finding.find_member(draft, command.member_id, command.group_instance_id)
    if command.member_epoch == LEAVING_STATIC_EPOCH:
        # The member can come back until its session ends, and keeps its partitions until then.
        current = replace(member.current, member_epoch=LEAVING_STATIC_EPOCH, revoking={})
        draft.put(replace(member, current=current))
        keep(turn, draft)
    else:
        put_out(turn, draft, {member.member_id})
    return ConsumerGroupHeartbeatAnswered(
        member_id=member.member_id, member_epoch=command.member_epoch
    )


def put_out(turn: Turn, draft: Draft, member_ids: Collection[str]) -> None:
    """Remove members that leave or are fenced. If all others speak the classic protocol, downgrade the group."""
    is_classic_now = is_downgrade(turn, draft, member_ids)
    for member_id in sorted(member_ids):
        draft.remove(member_id)
    if is_classic_now:
        downgrade(turn, draft, rebalances=True)
        return
    take_account(turn, draft, has_changed=True)
    keep(turn, draft)


VERBS: Final = (Verb(consumer_group_heartbeat, looks=True),)
