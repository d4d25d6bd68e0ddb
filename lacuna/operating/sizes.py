"""How much is in each topic, from the control plane's data."""

from collections.abc import Mapping
from typing import NamedTuple

from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadPartitions


class TopicSize(NamedTuple):
    """The retained offsets and the bytes of a topic, and the sum of the ends of its partitions."""

    records: int = 0
    bytes: int = 0
    end: int = 0


async def sizes_of_topics(control: ControlClient) -> Mapping[bytes, TopicSize]:
    """Return the size of each topic by its id. Raises ControlPlaneUnavailable."""
    topics = control.cluster.topics_by_id
    keys = [
        TopicPartition(topic_id=topic_id, partition=index)
        for topic_id, topic in topics.items()
        for index in range(topic.partition_count)
    ]
    reply = await control.call(Command(read_partitions=ReadPartitions(partitions=keys)))
    sizes = dict.fromkeys(topics, TopicSize())
    for key, state in zip(keys, reply.partitions_read.partitions, strict=True):
        known = sizes[key.topic_id]
        sizes[key.topic_id] = TopicSize(
            known.records + state.high_watermark - state.log_start_offset,
            known.bytes + state.size,
            known.end + state.high_watermark,
        )
    return sizes
