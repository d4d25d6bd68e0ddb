"""Reads a topic with a real consumer, and builds DataFrames of bytes."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lacuna.testing import Cluster


@pytest.fixture
def consume() -> Callable[..., list[Message]]:
    """consume(cluster, topic, partitions=1) -> all committed messages that librdkafka returns."""
    return _consume


def _consume(cluster: Cluster, topic: str, partitions: int = 1) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    messages: list[Message] = []
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, "no answer for 30 s"
            error = message.error()
            if error is None:
                messages.append(message)
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    finally:
        consumer.close()
    return messages
