"""DescribeTopicPartitions v0 (KIP-966): topics in the order of their names, as many partitions as fit.

No topics are all of them. The answer ends after `response_partition_limit` partitions (at least 1, at most 2000) and
`next_cursor` says where to go on. A cursor that names none of the asked topics, or a negative partition, makes every
topic INVALID_REQUEST; where all topics are asked for, the one of the cursor may be gone meanwhile. The leader is the
only replica, there are no eligible leader replicas. Authorized operations are always given.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis import operations
from agent.apis.metadata import LEADER_EPOCH
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.topic_names import is_legal
from agent.views import view_with
from controlplane.v1.cluster_pb2 import Topic

if TYPE_CHECKING:
    from agent.context import AgentContext

#: max.request.partition.size.limit of a broker
MAX_PARTITIONS = 2000


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    cluster = await view_with(context)
    names = sorted({topic.name for topic in request.topics} or cluster.topics_by_name)
    first = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            return refuse(request, KafkaError.invalid_request)
        start = request.cursor.topic_name
        if start in names:
            first = request.cursor.partition_index
        elif request.topics:
            return refuse(request, KafkaError.invalid_request)
        names = [name for name in names if name >= start]
    return _answer(context, request, names, first)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every named topic."""
    names = sorted({topic.name for topic in request.topics})
    return build(
        request,
        "DescribeTopicPartitionsResponse",
        topics=tuple(
            _topic(request, name, error_code, operations=operations.NOT_ASKED) for name in names
        ),
    )


def _answer(context: "AgentContext", request: Any, names: list[str], first: int) -> Any:
    """From partition `first` of the first topic on."""
    left = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    topics, cursor = [], None
    for name in names:
        if not left:
            cursor = build(request, "Cursor", topic_name=name, partition_index=0)
            break
        known = context.control.cluster.topics_by_name.get(name)
        if known is None:
            legal = KafkaError.unknown_topic_or_partition
            topics.append(
                _topic(
                    request, name, legal if is_legal(name) else KafkaError.invalid_topic_exception
                )
            )
            continue
        end = min(known.partition_count, first + left)
        topics.append(_known(context, request, known, range(first, end)))
        left -= max(0, end - first)
        if end < known.partition_count:
            cursor = build(request, "Cursor", topic_name=name, partition_index=end)
            break
        first = 0
    return build(
        request, "DescribeTopicPartitionsResponse", topics=tuple(topics), next_cursor=cursor
    )


def _known(context: "AgentContext", request: Any, topic: Topic, indexes: range) -> Any:
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    return _topic(
        request,
        topic.name,
        KafkaError.none,
        topic_id=UUID(bytes=topic.topic_id),
        partitions=tuple(_partition(request, topic.topic_id, index, node_ids) for index in indexes),
    )


def _topic(
    request: Any,
    name: str,
    error_code: int,
    topic_id: UUID | None = None,
    partitions: tuple[Any, ...] = (),
    operations: int = operations.TOPIC,
) -> Any:
    return build(
        request,
        "DescribeTopicPartitionsResponseTopic",
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(request: Any, topic_id: bytes, partition: int, node_ids: tuple[int, ...]) -> Any:
    leader = -1
    if node_ids:
        leader = placement.place(placement.partition_key(topic_id, partition), node_ids)
    nodes = (leader,) if node_ids else ()
    return build(
        request,
        "DescribeTopicPartitionsResponsePartition",
        error_code=KafkaError.none if node_ids else KafkaError.leader_not_available,
        partition_index=partition,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=nodes,
        isr_nodes=nodes,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=(),
    )


API = Api(key=75, min_version=0, max_version=0, handle=handle, refuse=refuse)
