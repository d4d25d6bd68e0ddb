"""ConsumerGroupHeartbeat v0-v1: joins, stays in or leaves a consumer group (KIP-848, S26).

The coordinator assigns partitions with the `uniform` or the `range` assignor. From v1 on, the client chooses the member
id and may subscribe with a regular expression in RE2's syntax. Epoch 0 joins, -1 leaves, and -2 lets a static member
leave temporarily. The first member that joins a classic group with this request upgrades it to a consumer group. While
no control plane can be reached, members stay in their groups (adr/0034).
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.groups import consumer_group_heartbeat as guard
from lacuna.agent.members import without_assignment
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import GROUP_CONFIGS, HEARTBEAT_INTERVAL
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswered,
    TopicIdPartitions,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.wire.messages import consumer_groups as wire

FIRST_MEMBER_ID_OF_CLIENT = 1


async def handle(
    call: Call, request: wire.ConsumerGroupHeartbeatRequest
) -> wire.ConsumerGroupHeartbeatResponse:
    if request.instance_id == "":
        return _failed(ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.")
    members, group_id = call.context.members, request.group_id
    member = (group_id, request.member_id, request.member_epoch)
    reply = await members.ask(
        member if _brings_nothing(request) else None,
        call.command(consumer_group_heartbeat=_command(call, request)),
    )
    answered = reply.consumer_group_heartbeat_answered
    if answered.error_code:
        members.forget(member)
        return _failed(answered.error_code, answered.error_message)
    if answered.member_epoch > 0:
        member = (group_id, answered.member_id or request.member_id, answered.member_epoch)
        members.keep(member, Reply(consumer_group_heartbeat_answered=without_assignment(answered)))
    return wire.ConsumerGroupHeartbeatResponse(
        member_id=answered.member_id or None,
        member_epoch=answered.member_epoch,
        heartbeat_interval_ms=answered.heartbeat_interval_ms,
        assignment=_assignment(answered) if answered.has_assignment else None,
    )


def _brings_nothing(request: wire.ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request only reports that the member is alive, and may therefore safely be lost."""
    changes = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        request.topic_partitions,
    )
    return request.member_epoch > 0 and all(change is None for change in changes)


def _command(call: Call, request: wire.ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeat:
    member_id = request.member_id
    if not member_id and request.member_epoch == 0 and call.version < FIRST_MEMBER_ID_OF_CLIENT:
        # The agent chooses the id, so that a retry of the command does not add another member.
        member_id = f"{call.context.randomness.getrandbits(128):032x}"
    return ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=member_id,
        member_epoch=request.member_epoch,
        group_instance_id=request.instance_id or "",
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        has_topic_names=request.subscribed_topic_names is not None,
        topic_names=request.subscribed_topic_names or (),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        has_owned=request.topic_partitions is not None,
        owned=[
            TopicIdPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in request.topic_partitions or ()
        ],
        client_id=call.peer.client_id,
        client_host=f"/{call.peer.host}",
        needs_member_id=call.version >= FIRST_MEMBER_ID_OF_CLIENT,
    )


def _assignment(answered: ConsumerGroupHeartbeatAnswered) -> wire.Assignment:
    return wire.Assignment(
        [wire.TopicPartitions(row.topic_id, row.partitions) for row in answered.assignment]
    )


def _failed(error_code: int, message: str) -> wire.ConsumerGroupHeartbeatResponse:
    return wire.ConsumerGroupHeartbeatResponse(error_code=error_code, error_message=message or None)


API = Api(
    request=wire.CONSUMER_GROUP_HEARTBEAT_REQUEST,
    response=wire.CONSUMER_GROUP_HEARTBEAT_RESPONSE,
    handle=handle,
    guard=guard,
    most_whole=50_000,
    moved=ErrorCode.NOT_COORDINATOR,
    heartbeat_ms=int(GROUP_CONFIGS[HEARTBEAT_INTERVAL].default),
    notes="KIP-848: `uniform` and `range`, RE2 expressions, upgrade and downgrade of running classic groups",
)
