"""A partition's key in dictionaries, and its name in messages."""

from typing import TypeAlias

from lacuna.controlplane.v1.cluster_pb2 import TopicPartition

#: (topic id, partition index)
PartitionKey: TypeAlias = tuple[bytes, int]


def key_of(partition: TopicPartition) -> PartitionKey:
    """Return the key of the partition that a message names."""
    return partition.topic_id, partition.partition


def named(key: PartitionKey) -> TopicPartition:
    return TopicPartition(topic_id=key[0], partition=key[1])
