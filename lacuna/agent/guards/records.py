"""Guards for the APIs that concern records: Produce, Fetch and OffsetForLeaderEpoch."""

from collections.abc import Callable
from typing import Any, Final

from lacuna.agent.api import AnyApi, Call
from lacuna.agent.fetch.sessions import Permission
from lacuna.agent.guards.guard import name_of, split
from lacuna.agent.rights import Rights
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.authorizer import DENIED
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.produce import ProduceRequest, TopicProduceData

_NO_REPLICA: Final = -1
#: In a batch of magic 2, the positions of the magic, and of the byte with the bit that marks the batch as
#: transactional.
_MAGIC_AT, _FLAGS_AT = 16, 22
_MAGIC, _TRANSACTIONAL = 2, 0x10


async def produce(rights: Rights, api: AnyApi, call: Call, request: ProduceRequest) -> Any:
    """Requires Write on each topic, and on the transactional id for transactional batches. Never waits (S12)."""
    if request.transactional_id is not None and _is_transactional(request):
        kind, name = ResourceType.TRANSACTIONAL_ID, request.transactional_id
        if code := rights.error(Operation.WRITE, kind, name):
            return api.refuse(call, request, code)

    def code_of(topic: TopicProduceData) -> int:
        name = name_of(call.context, topic.name, topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return rights.error(Operation.WRITE, ResourceType.TOPIC, name)

    return await split(api, call, request, "topic_data", "responses", code_of)


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether the first batch of any partition is transactional."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if records is None or len(records) <= _FLAGS_AT or records[_MAGIC_AT] != _MAGIC:
                continue
            if records[_FLAGS_AT] & _TRANSACTIONAL:
                return True
    return False


async def fetch(rights: Rights, api: AnyApi, call: Call, request: wire.FetchRequest) -> Any:
    """Requires Read on each topic. The handler receives a permission, since a session's topics are not named."""
    return await api.handle(call, request, _permission(rights, call, request))


def _permission(rights: Rights, call: Call, request: wire.FetchRequest) -> Permission:
    """Return the permission for a fetch, which requires Read on each topic in the request and its session, or
    ClusterAction if the client claims to be a replica.
    """
    is_replica = max(request.replica_id, request.replica_state.replica_id) != _NO_REPLICA
    may_read: Callable[[str], bool]
    if is_replica:
        is_one = rights.may_cluster(Operation.CLUSTER_ACTION)
        may_read = lambda _: is_one  # noqa: E731
    else:
        may_read = lambda name: rights.may_topic(Operation.READ, name)  # noqa: E731

    def refusal(name: str, topic_id: bytes) -> int:
        topic = name_of(call.context, name, topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return 0 if may_read(topic) else DENIED[ResourceType.TOPIC]

    return rights.whose, refusal


async def offset_for_leader_epoch(
    rights: Rights, api: AnyApi, call: Call, request: wire.OffsetForLeaderEpochRequest
) -> Any:
    """Requires ClusterAction if the client is a replica, or else Describe on each topic (KIP-320)."""
    is_replica = rights.may_cluster(Operation.CLUSTER_ACTION, is_logged=False)

    def code_of(topic: wire.OffsetForLeaderTopic) -> int:
        return (
            0 if is_replica else rights.error(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        )

    return await split(api, call, request, "topics", "topics", code_of)
