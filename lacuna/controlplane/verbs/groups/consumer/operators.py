"""Describes consumer groups for operators, and removes members whose deadlines have passed."""

from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import of_groups
from lacuna.controlplane.state.groups.consumer.assignments import write_assignment
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup, Draft
from lacuna.controlplane.state.groups.consumer.member import Member
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupsDescribed,
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.groups.consumer.advance import preferred_assignor
from lacuna.controlplane.verbs.groups.consumer.finding import find_group, possibly_overdue
from lacuna.controlplane.verbs.groups.consumer.heartbeat import put_out
from lacuna.controlplane.verbs.parts import until_full
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def describe_consumer_groups(turn: Turn, command: DescribeConsumerGroups) -> Reply:
    """Describe consumer groups and their members. Other groups fail with GROUP_ID_NOT_FOUND."""
    groups = until_full(command.group_ids, lambda group_id: _describe(turn, group_id))
    return Reply(consumer_groups_described=ConsumerGroupsDescribed(groups=groups))


def _describe(turn: Turn, group_id: str) -> DescribedConsumerGroup:
    if not group_id:
        return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = find_group(turn, group_id)
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
    described = member.described()
    described.target.extend(write_assignment(member.target))
    return described


def end_overdue_consumers(turn: Turn) -> None:
    """Remove members past a deadline. A group restored from the journal first receives full deadlines."""
    groups = turn.groups
    for group_id, group in possibly_overdue(turn, groups.consumers, groups.live_consumers):
        live = groups.open_consumer(group, turn.now_ms)
        if present := live.overdue(turn.now_ms) & group.members.keys():
            put_out(turn, Draft(group_id, group), present)
        groups.live_consumers.get(group_id, live).refresh_due()


def is_subscribed(turn: Turn, group: ConsumerGroup, topic_id: bytes) -> bool:
    """Whether any member of the group subscribes to this existing topic."""
    return topic_id in group.topics and turn.topics.name_of(topic_id) is not None


VERBS: Final = (Verb(describe_consumer_groups, looks=True, needs=of_groups(Operation.DESCRIBE)),)
