"""DescribeTopicPartitions v0 (KIP-966): describes topics in the order of their names, with as many partitions as fit.

If the request names no topics, all topics are described. The answer ends after `response_partition_limit` partitions
(at least 1, at most 2000), and its `next_cursor` specifies where the next answer begins. If the cursor names a topic
that is not among those requested, or a negative partition, every topic gets INVALID_REQUEST. If all topics are
requested, the cursor's topic may have been deleted in the meantime. The leader is the only replica, and there are no
eligible leader replicas. Authorized operations are always included.
"""

from lacuna.agent import placement, rendezvous
from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call
from lacuna.agent.apis.k03_metadata import LEADER_EPOCH
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.topics import describe_topic_partitions as guard
from lacuna.agent.internal import all_topics, is_internal, topic_by_name
from lacuna.agent.topic_names import is_legal
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.wire.messages import topics as wire

#: A broker's max.request.partition.size.limit.
MAX_PARTITIONS = 2000


async def handle(
    call: Call, request: wire.DescribeTopicPartitionsRequest
) -> wire.DescribeTopicPartitionsResponse:
    cluster = await view_with(call.context)
    names = sorted({topic.name for topic in request.topics} or all_topics(cluster))
    first = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            return refuse(call, request, ErrorCode.INVALID_REQUEST)
        start = request.cursor.topic_name
        if start in names:
            first = request.cursor.partition_index
        elif request.topics:
            return refuse(call, request, ErrorCode.INVALID_REQUEST)
        names = [name for name in names if name >= start]
    limit = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    return _answer(call.context, names, first, limit)


def refuse(
    _call: Call, request: wire.DescribeTopicPartitionsRequest, error_code: int
) -> wire.DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics})
    return wire.DescribeTopicPartitionsResponse(
        topics=[wire.DescribeTopicPartitionsResponseTopic(error_code, name) for name in names]
    )


def _answer(
    context: AgentContext, names: list[str], first: int, left: int
) -> wire.DescribeTopicPartitionsResponse:
    """Describe at most `left` partitions of the topics `names`, beginning with partition `first` of the first topic."""
    topics, cursor = [], None
    for name in names:
        if not left:
            cursor = wire.Cursor(name, 0)
            break
        known = topic_by_name(context.control.cluster, name)
        if known is None:
            topics.append(_missing(name))
            continue
        end = min(known.partition_count, first + left)
        topics.append(_known(context, known, range(first, end)))
        left -= max(0, end - first)
        if end < known.partition_count:
            cursor = wire.Cursor(name, end)
            break
        first = 0
    return wire.DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _missing(name: str) -> wire.DescribeTopicPartitionsResponseTopic:
    legal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return wire.DescribeTopicPartitionsResponseTopic(
        error_code=legal if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_authorized_operations=operations.TOPIC,
    )


def _known(
    context: AgentContext, topic: Topic, indexes: range
) -> wire.DescribeTopicPartitionsResponseTopic:
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    return wire.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.topic_id),
        partitions=[_partition(topic.topic_id, index, node_ids) for index in indexes],
        topic_authorized_operations=operations.TOPIC,
    )


def _partition(
    topic_id: bytes, partition: int, node_ids: tuple[int, ...]
) -> wire.DescribeTopicPartitionsResponsePartition:
    leader = -1
    if node_ids:
        leader = rendezvous.place(rendezvous.partition_key(topic_id, partition), node_ids)
    nodes = (leader,) if node_ids else ()
    return wire.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if node_ids else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=nodes,
        isr_nodes=nodes,
        eligible_leader_replicas=(),
        last_known_elr=(),
    )


API = Api(
    request=wire.DESCRIBE_TOPIC_PARTITIONS_REQUEST,
    response=wire.DESCRIBE_TOPIC_PARTITIONS_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    most_whole=100_000,
)
