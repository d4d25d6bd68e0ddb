"""DescribeLogDirs v0-v5: each agent reports one directory, with the partitions that it leads.

`partition_size` is the size of the partition's extents in the object store, in bytes, and includes aborted records
until they are removed. There are no replicas, so `offset_lag` is 0. The object store has no fixed size, so v4's
`total_bytes` and `usable_bytes` are -1, Kafka's value for "unknown" (KIP-827). A null topic list means all topics.
Partitions that this agent does not lead, or that do not exist, are omitted. v5's `is_cordoned` is false (KIP-1066).
While segments cannot be written, the directory reports KAFKA_STORAGE_ERROR, like a failed directory in Kafka. Internal
topics have a size of 0, because they are not stored in the object store.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from lacuna.agent import placement, rendezvous
from lacuna.agent.api import Api, Call
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.cluster import describe_log_dirs as guard
from lacuna.agent.internal import all_topics, topic_by_name
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.broker_configs import LOG_DIR
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from lacuna.wire.messages import cluster as wire

# The number of partitions whose sizes one command requests. The control plane does nothing else while it answers a
# command.
_GROUP = 5_000


async def handle(call: Call, request: wire.DescribeLogDirsRequest) -> wire.DescribeLogDirsResponse:
    await view_with(call.context)
    asked = list(_led(call.context, request))
    sizes: list[tuple[str, int, int]] = []
    for start in range(0, len(asked), _GROUP):
        group = asked[start : start + _GROUP]
        command = ReadPartitions(
            partitions=[
                TopicPartition(topic_id=topic.topic_id, partition=index) for topic, index in group
            ]
        )
        reply = await call.context.control.call(Command(read_partitions=command))
        sizes += [
            (topic.name, index, state.size)
            for (topic, index), state in zip(group, reply.partitions_read.partitions, strict=True)
            if not state.error_code
        ]
    is_failing = bool(call.context.produce.flusher.why_store_fails())
    code = ErrorCode.KAFKA_STORAGE_ERROR if is_failing else ErrorCode.NONE
    return wire.DescribeLogDirsResponse(results=_directory(code, sizes))


def _led(
    context: AgentContext, request: wire.DescribeLogDirsRequest
) -> Iterator[tuple[Topic, int]]:
    """Yield the requested partitions that this agent leads according to its Metadata, once each, by topic."""
    cluster = context.control.cluster
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    asked: dict[str, dict[int, None]] = {}
    if request.topics is None:
        asked = {
            name: dict.fromkeys(range(topic.partition_count))
            for name, topic in all_topics(cluster).items()
        }
    for each in request.topics or ():
        asked.setdefault(each.topic, {}).update(dict.fromkeys(each.partitions))
    for name, indexes in asked.items():
        topic = topic_by_name(cluster, name)
        if topic is None or not node_ids:
            continue
        for index in indexes:
            if not 0 <= index < topic.partition_count:
                continue
            key = rendezvous.partition_key(topic.topic_id, index)
            if rendezvous.place(key, node_ids) == context.lease.node_id:
                yield topic, index


def _directory(
    error_code: int, sizes: Sequence[tuple[str, int, int]]
) -> list[wire.DescribeLogDirsResult]:
    topics = [
        wire.DescribeLogDirsTopic(
            name, [wire.DescribeLogDirsPartition(index, size) for _, index, size in group]
        )
        for name, group in groupby(sizes, key=lambda each: each[0])
    ]
    return [wire.DescribeLogDirsResult(error_code, LOG_DIR, topics)]


API = Api(
    request=wire.DESCRIBE_LOG_DIRS_REQUEST,
    response=wire.DESCRIBE_LOG_DIRS_RESPONSE,
    handle=handle,
    refusal=lambda _call, _request, code: wire.DescribeLogDirsResponse(
        error_code=code, results=_directory(code, [])
    ),
    guard=guard,
    unavailable=ErrorCode.KAFKA_STORAGE_ERROR,
    notes="one directory, the object store, with the partitions that the agent leads and their sizes in the store",
)
