"""Describes consumer groups for operators, and removes members whose deadlines have passed."""

from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import of_groups
from lacuna.controlplane.state.groups.consumer.assignments import write_assignment
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup, Draft
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.state.settings import GROUPS_PER_TICK
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupsDescribed,
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.groups.consumer import finding
from lacuna.controlplane.verbs.groups.consumer.advance import preferred_assignor
from lacuna.controlplane.verbs.groups.consumer.heartbeat import put_out
from lacuna.controlplane.verbs.parts import until_full
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def describe_consumer_groups(turn: Turn, command: DescribeConsumerGroups) -> Reply:
    """Describe consumer groups and their members; other groups get GROUP_ID_NOT_FOUND."""
    groups = until_full(command.group_ids, lambda group_id: _describe(turn, group_id))
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
    """Remove members with a deadline that has passed; a group restored from the journal gets full deadlines first.

    The next tick continues after GROUPS_PER_TICK groups.
    """
    groups, moved_ms = turn.groups, turn.groups.live.moved_ms
    left = GROUPS_PER_TICK
    for group_id, group in list(groups.consumers.items()):
        known = groups.live_consumers.get(group_id)
        if known is not None and not known.is_due(turn.now_ms, moved_ms):
            continue
        left -= 1
        if left < 0:
            return
        live = groups.open_consumer(group, turn.now_ms)
        overdue = {member_id for member_id, _ in live.overdue(turn.now_ms)}
        present = overdue & group.members.keys()
        if present:
            put_out(turn, Draft(group_id, group), present)
        live = turn.groups.live_consumers.get(group_id, live)
        live.refresh_due()


def is_subscribed(turn: Turn, group: ConsumerGroup, topic_id: bytes) -> bool:
    """Whether a member of the group is subscribed to this existing topic."""
    return topic_id in group.topics and turn.topics.name_of(topic_id) is not None


VERBS: Final = (Verb(describe_consumer_groups, looks=True, needs=of_groups(Operation.DESCRIBE)),)
