"""ConsumerGroupDescribe v0-v1 (KIP-848): describes consumer groups, their members and their target assignments.

A group that does not exist returns GROUP_ID_NOT_FOUND, as does a classic group, which DescribeGroups describes. v1 also
reports which members use the classic protocol.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping

from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import consumer_group_describe as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import INTERNAL_TOPICS
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    TopicIdPartitions,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages import consumer_groups as wire

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


async def handle(
    call: Call, request: wire.ConsumerGroupDescribeRequest
) -> wire.ConsumerGroupDescribeResponse:
    command = DescribeConsumerGroups(group_ids=request.group_ids)
    reply = await call.context.control.call(Command(describe_consumer_groups=command))
    internal = {topic.topic_id: topic for topic in INTERNAL_TOPICS}
    topics = ChainMap(call.context.control.cluster.topics_by_id, internal)
    groups = reply.consumer_groups_described.groups
    return wire.ConsumerGroupDescribeResponse(
        groups=[_describe(request, group, topics) for group in groups]
    )


def _describe(
    request: wire.ConsumerGroupDescribeRequest,
    group: DescribedConsumerGroup,
    topics: Mapping[bytes, Topic],
) -> wire.DescribedGroup:
    is_asked = request.include_authorized_operations and not group.error_code
    return wire.DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, topics) for member in group.members],
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
    )


def _member(member: DescribedConsumerMember, topics: Mapping[bytes, Topic]) -> wire.Member:
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id or None,
        rack_id=member.rack_id or None,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment, topics),
        target_assignment=_assignment(member.target, topics),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(
    rows: Iterable[TopicIdPartitions], topics: Mapping[bytes, Topic]
) -> wire.ConsumerGroupDescribeResponseAssignment:
    """Convert an assignment to Kafka's message. Leave out topics that have just been deleted."""
    return wire.ConsumerGroupDescribeResponseAssignment(
        [
            wire.ConsumerGroupDescribeResponseTopicPartitions(
                row.topic_id, topics[row.topic_id].name, row.partitions
            )
            for row in rows
            if row.topic_id in topics
        ]
    )


API = Api(
    request=wire.CONSUMER_GROUP_DESCRIBE_REQUEST,
    response=wire.CONSUMER_GROUP_DESCRIBE_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: wire.ConsumerGroupDescribeResponse(
        groups=[wire.DescribedGroup(code, group_id=each) for each in request.group_ids]
    ),
    guard=guard,
    pieces=(Pieces(("group_ids",), ("groups",)),),
    moved=ErrorCode.NOT_COORDINATOR,
    notes="KIP-848",
)
