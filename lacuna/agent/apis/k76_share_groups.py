"""ShareGroupHeartbeat v1 keeps members in share groups, and ShareGroupDescribe v1 describes these groups (KIP-932).

Epoch 0 joins and -1 leaves. The control plane assigns partitions with Kafka's `simple` assignor, which lets members
share partitions. While no control plane can be reached, members stay in their groups (adr/0034).
"""

from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import share_group_describe, share_group_heartbeat
from lacuna.agent.members import without_assignment
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import GROUP_CONFIGS, SHARE_HEARTBEAT_INTERVAL
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
    DescribeConsumerGroups,
    DescribedConsumerGroup,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.wire.messages import share_groups as wire


async def heartbeat(
    call: Call, request: wire.ShareGroupHeartbeatRequest
) -> wire.ShareGroupHeartbeatResponse:
    members = call.context.members
    member = ("share", request.group_id, request.member_id, request.member_epoch)
    brings_nothing = request.member_epoch > 0 and request.subscribed_topic_names is None
    command = ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        has_topic_names=request.subscribed_topic_names is not None,
        topic_names=request.subscribed_topic_names or (),
        client_id=call.peer.client_id,
        client_host=f"/{call.peer.host}",
    )
    reply = await members.ask(
        member if brings_nothing else None, call.command(share_group_heartbeat=command)
    )
    answered = reply.share_group_heartbeat_answered
    if answered.error_code:
        members.forget(member)
        return wire.ShareGroupHeartbeatResponse(
            error_code=answered.error_code, error_message=answered.error_message or None
        )
    if answered.member_epoch > 0:
        member = ("share", request.group_id, answered.member_id, answered.member_epoch)
        members.keep(member, Reply(share_group_heartbeat_answered=without_assignment(answered)))
    return wire.ShareGroupHeartbeatResponse(
        member_id=answered.member_id or None,
        member_epoch=answered.member_epoch,
        heartbeat_interval_ms=answered.heartbeat_interval_ms,
        assignment=_assignment(answered) if answered.has_assignment else None,
    )


def _assignment(
    answered: ConsumerGroupHeartbeatAnswered,
) -> wire.ShareGroupHeartbeatResponseAssignment:
    return wire.ShareGroupHeartbeatResponseAssignment(
        [
            wire.ShareGroupHeartbeatResponseTopicPartitions(row.topic_id, row.partitions)
            for row in answered.assignment
        ]
    )


async def describe(
    call: Call, request: wire.ShareGroupDescribeRequest
) -> wire.ShareGroupDescribeResponse:
    command = DescribeConsumerGroups(group_ids=request.group_ids)
    reply = await call.context.control.call(Command(describe_share_groups=command))
    groups = reply.share_groups_described.groups
    return wire.ShareGroupDescribeResponse(
        groups=[_described(call, request, each) for each in groups]
    )


def _described(
    call: Call, request: wire.ShareGroupDescribeRequest, group: DescribedConsumerGroup
) -> wire.DescribedGroup:
    is_asked = request.include_authorized_operations and not group.error_code
    topics = call.context.control.cluster.topics_by_id
    return wire.DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            wire.Member(
                member_id=member.member_id,
                rack_id=member.rack_id or None,
                member_epoch=member.member_epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.topic_names,
                assignment=wire.Assignment(
                    [
                        wire.TopicPartitions(
                            row.topic_id, topics[row.topic_id].name, row.partitions
                        )
                        for row in member.assignment
                        if row.topic_id in topics
                    ]
                ),
            )
            for member in group.members
        ],
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
    )


APIS = (
    Api(
        request=wire.SHARE_GROUP_HEARTBEAT_REQUEST,
        response=wire.SHARE_GROUP_HEARTBEAT_RESPONSE,
        handle=heartbeat,
        guard=share_group_heartbeat,
        moved=ErrorCode.NOT_COORDINATOR,
        heartbeat_ms=int(GROUP_CONFIGS[SHARE_HEARTBEAT_INTERVAL].default),
        notes="share groups (KIP-932), assignor `simple`",
    ),
    Api(
        request=wire.SHARE_GROUP_DESCRIBE_REQUEST,
        response=wire.SHARE_GROUP_DESCRIBE_RESPONSE,
        handle=describe,
        refusal=lambda _call, request, code: wire.ShareGroupDescribeResponse(
            groups=[wire.DescribedGroup(code, group_id=each) for each in request.group_ids]
        ),
        guard=share_group_describe,
        pieces=(Pieces(("group_ids",), ("groups",)),),
        moved=ErrorCode.NOT_COORDINATOR,
        notes="share groups (KIP-932)",
    ),
)
