"""ConsumerGroupHeartbeat v0-v1: join, stay in and leave a consumer group (KIP-848, S26).

The coordinator assigns, by `uniform` or `range`. From v1 on the client makes the member id, and may
subscribe to a regular expression, which RE2 reads. Epoch 0 joins, -1 leaves, -2 leaves for a while
(a static member). A classic group is upgraded by the first member that joins so.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent.apis.group_offsets import duration, id_bytes, or_none
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, milliseconds, version_of
from controlplane.errors import ErrorCode
from controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat, TopicIdPartitions
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_MEMBER_ID_OF_CLIENT = 1
_NO_DELAY = 0


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:
    """One command."""
    if request.instance_id == "":
        return _refuse(request, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.")
    command = ConsumerGroupHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        group_instance_id=request.instance_id or "",
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        has_topic_names=request.subscribed_topic_names is not None,
        topic_names=request.subscribed_topic_names or (),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        server_assignor=request.server_assignor,
        has_owned=request.topic_partitions is not None,
        owned=[
            TopicIdPartitions(topic_id=id_bytes(each), partitions=each.partitions)
            for each in request.topic_partitions or ()
        ],
        client_id=peer.client_id,
        client_host=f"/{peer.host}",
        needs_member_id=version_of(request) >= FIRST_MEMBER_ID_OF_CLIENT,
    )
    reply = await context.control.call(Command(consumer_group_heartbeat=command))
    answered = reply.consumer_group_heartbeat_answered
    if answered.error_code:
        return _refuse(request, answered.error_code, answered.error_message)
    assignment = None
    if answered.has_assignment:
        rows = tuple(
            build(
                request,
                "TopicPartitions",
                topic_id=UUID(bytes=row.topic_id),
                partitions=tuple(row.partitions),
            )
            for row in answered.assignment
        )
        assignment = build(request, "Assignment", topic_partitions=rows)
    return build(
        request,
        "ConsumerGroupHeartbeatResponse",
        error_code=0,
        member_id=or_none(answered.member_id),
        member_epoch=answered.member_epoch,
        heartbeat_interval=duration(answered.heartbeat_interval_ms),
        assignment=assignment,
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error alone."""
    return _refuse(request, error_code, "")


def _refuse(request: Any, error_code: int, message: str) -> Any:
    return build(
        request,
        "ConsumerGroupHeartbeatResponse",
        error_code=error_code,
        error_message=or_none(message),
        member_epoch=0,
        heartbeat_interval=duration(_NO_DELAY),
    )


API = Api(
    key=68,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="KIP-848: `uniform` and `range`, RE2 expressions, classic groups upgraded and back while they run",
)
