"""DescribeLogDirs v1-v4: one directory an agent, with the partitions that it leads.

`partition_size` is the bytes of the partition's extents in the object store, aborted records not counted once they are
gone. There are no replicas: `offset_lag` is 0. The object store has no end, so v4's `total_bytes` and
`usable_bytes` are -1, Kafka's "unknown" (KIP-827). Null topics are all; a partition that this agent does not
lead is left out, as one that does not exist.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.log_dirs import LOG_DIR
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.views import view_with
from controlplane.v1.cluster_pb2 import Topic, TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions

if TYPE_CHECKING:
    from agent.context import AgentContext

UNKNOWN_BYTES = -1
# What one command asks for: the control plane does nothing else meanwhile.
_GROUP = 5_000


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """Sizes are the control plane's, in commands of some thousand partitions."""
    await view_with(context)
    asked = list(_led(context, request))
    sizes: list[tuple[str, int, int]] = []
    for start in range(0, len(asked), _GROUP):
        group = asked[start : start + _GROUP]
        command = ReadPartitions(
            partitions=[
                TopicPartition(topic_id=topic.topic_id, partition=index) for topic, index in group
            ]
        )
        reply = await context.control.call(Command(read_partitions=command))
        sizes += [
            (topic.name, index, state.size)
            for (topic, index), state in zip(group, reply.partitions_read.partitions, strict=True)
            if not state.error_code
        ]
    return _answer(request, KafkaError.none, sizes)


def refuse(request: Any, error_code: int) -> Any:
    """The error for the directory; v3+ has a place for it at the top too."""
    return _answer(request, error_code, [])


def _led(context: "AgentContext", request: Any) -> Iterator[tuple[Topic, int]]:
    """What was asked for and is led by this agent, as its Metadata says; each once, by topic."""
    known = context.control.cluster.topics_by_name
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    asked: dict[str, dict[int, None]] = {}
    if request.topics is None:
        asked = {name: dict.fromkeys(range(known[name].partition_count)) for name in sorted(known)}
    for each in request.topics or ():
        asked.setdefault(each.topic, {}).update(dict.fromkeys(each.partitions))
    for name, indexes in asked.items():
        topic = known.get(name)
        if topic is None or not node_ids:
            continue
        for index in indexes:
            if not 0 <= index < topic.partition_count:
                continue
            key = placement.partition_key(topic.topic_id, index)
            if placement.place(key, node_ids) == context.lease.node_id:
                yield topic, index


def _answer(request: Any, error_code: int, sizes: list[tuple[str, int, int]]) -> Any:
    directory = build(
        request,
        "DescribeLogDirsResult",
        error_code=error_code,
        log_dir=LOG_DIR,
        topics=tuple(
            build(
                request,
                "DescribeLogDirsTopic",
                name=name,
                partitions=tuple(_partition(request, index, size) for _, index, size in group),
            )
            for name, group in groupby(sizes, key=lambda each: each[0])
        ),
        total_bytes=UNKNOWN_BYTES,
        usable_bytes=UNKNOWN_BYTES,
    )
    return build(request, "DescribeLogDirsResponse", error_code=error_code, results=(directory,))


def _partition(request: Any, index: int, size: int) -> Any:
    return build(
        request,
        "DescribeLogDirsPartition",
        partition_index=index,
        partition_size=size,
        offset_lag=0,
        is_future_key=False,
    )


API = Api(
    key=35,
    min_version=1,
    max_version=4,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.kafka_storage_error,
    notes="one directory, the object store, with the partitions that the agent leads and their sizes there",
)
