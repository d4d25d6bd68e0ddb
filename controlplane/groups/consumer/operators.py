"""What operators see of consumer groups, and what time does to them."""

from controlplane.errors import ErrorCode
from controlplane.groups.consumer import finding
from controlplane.groups.consumer.advance import preferred_assignor
from controlplane.groups.consumer.assignments import write_assignment
from controlplane.groups.consumer.group import ConsumerGroup, Draft
from controlplane.groups.consumer.heartbeat import put_out
from controlplane.groups.consumer.member import Member
from controlplane.groups.consumer.refusal import Refused
from controlplane.groups.turn import Turn
from controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupsDescribed,
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from controlplane.v1.control_pb2 import Reply


def decide_describe_consumer(turn: Turn, command: DescribeConsumerGroups) -> Reply:
    """Every group with its members; GROUP_ID_NOT_FOUND where there is none, or a classic one."""
    groups = [_describe(turn, group_id) for group_id in command.group_ids]
    return Reply(consumer_groups_described=ConsumerGroupsDescribed(groups=groups))


def _describe(turn: Turn, group_id: str) -> DescribedConsumerGroup:
    if not group_id:
        return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = finding.find_group(turn, group_id)
    except Refused as refused:
        return DescribedConsumerGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=preferred_assignor(group.members),
        members=[_describe_member(member) for member in group.members.values()],
    )


def _describe_member(member: Member) -> DescribedConsumerMember:
    subscription = member.subscription
    return DescribedConsumerMember(
        member_id=member.member_id,
        group_instance_id=subscription.group_instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        topic_names=subscription.topic_names,
        topic_regex=subscription.topic_regex,
        assignment=write_assignment(member.current.assigned),
        target=write_assignment(member.target),
        is_classic=member.is_classic,
    )


def end_overdue_consumers(turn: Turn) -> None:
    """Put out every member whose time is over at `now_ms`; groups that just came back get theirs."""
    for group_id, group in list(turn.groups.consumers.items()):
        live = turn.groups.open_consumer(group, turn.now_ms)
        if live.due_ms is None or live.due_ms > turn.now_ms:
            continue
        overdue = {member_id for member_id, _ in live.overdue(turn.now_ms)}
        present = overdue & group.members.keys()
        if present:
            put_out(turn, Draft(group_id, group), present)
        live = turn.groups.live_consumers.get(group_id, live)
        live.refresh_due()


def is_subscribed(turn: Turn, group: ConsumerGroup, topic_id: bytes) -> bool:
    """Whether a member wants the topic."""
    return topic_id in group.topics and turn.topics.name_of(topic_id) is not None
