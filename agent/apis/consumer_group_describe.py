"""ConsumerGroupDescribe v0-v1: consumer groups with their members and targets (KIP-848).

GROUP_ID_NOT_FOUND for what does not exist and for classic groups, which DescribeGroups describes. v1 tells
members that speak the classic protocol from the others.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent.apis import operations
from agent.apis.group_offsets import or_none
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.cluster_pb2 import Topic
from controlplane.v1.consumer_groups_pb2 import (
    DescribeConsumerGroups,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    TopicIdPartitions,
)
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all groups."""
    command = DescribeConsumerGroups(group_ids=request.group_ids)
    reply = await context.control.call(Command(describe_consumer_groups=command))
    topics = context.control.cluster.topics_by_id
    groups = [_describe(request, group, topics) for group in reply.consumer_groups_described.groups]
    return _answer(request, groups)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every group."""
    groups = [
        _describe(request, DescribedConsumerGroup(group_id=group_id, error_code=error_code), {})
        for group_id in request.group_ids
    ]
    return _answer(request, groups)


def _answer(request: Any, groups: list[Any]) -> Any:
    return build(request, "ConsumerGroupDescribeResponse", groups=tuple(groups))


def _describe(request: Any, group: DescribedConsumerGroup, topics: dict[bytes, Topic]) -> Any:
    is_asked = request.include_authorized_operations and not group.error_code
    return build(
        request,
        "DescribedGroup",
        error_code=group.error_code,
        error_message=or_none(group.error_message),
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_describe_member(request, member, topics) for member in group.members),
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
    )


def _describe_member(
    request: Any, member: DescribedConsumerMember, topics: dict[bytes, Topic]
) -> Any:
    return build(
        request,
        "Member",
        member_id=member.member_id,
        instance_id=or_none(member.group_instance_id),
        rack_id=or_none(member.rack_id),
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(request, member.assignment, topics),
        target_assignment=_assignment(request, member.target, topics),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(request: Any, rows: Iterable[TopicIdPartitions], topics: dict[bytes, Topic]) -> Any:
    """Topics that have just been deleted are left out."""
    partitions = tuple(
        build(
            request,
            "TopicPartitions",
            topic_id=UUID(bytes=row.topic_id),
            topic_name=topics[row.topic_id].name,
            partitions=tuple(row.partitions),
        )
        for row in rows
        if row.topic_id in topics
    )
    return build(request, "Assignment", topic_partitions=partitions)


API = Api(
    key=69,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="KIP-848",
)
