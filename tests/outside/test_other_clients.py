"""Tests the topics of Kafka Streams, Connect and schema registries, and clients with SASL settings."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    ConfigResource,
    ResourceType,
)

from lacuna.testing import Cluster

#: What Kafka Streams 4.1 asks for; a refusal ends its application.
STREAMS_TOPICS = [
    {"cleanup_policy": "delete", "segment_bytes": 52_428_800, "retention_ms": -1},
    {"cleanup_policy": "compact", "message_timestamp_type": "CreateTime"},
    {"cleanup_policy": "compact,delete", "retention_ms": 86_460_000},
]


@pytest.mark.parametrize("configs", STREAMS_TOPICS)
def test_topics_of_kafka_streams_are_made_and_described(
    lacuna_cluster: Cluster, lacuna_topic: Callable[..., str], configs: dict[str, object]
) -> None:
    topic = lacuna_topic(**configs)
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    shown = admin.describe_configs([resource])[resource].result(60)
    for name, value in configs.items():
        assert shown[name.replace("_", ".")].value == str(value)


def test_s11_a_compacted_topic_takes_records_with_keys_only_and_keeps_them(
    lacuna_cluster: Cluster, lacuna_topic: Callable[..., str]
) -> None:
    topic = lacuna_topic(cleanup_policy="compact")
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": lacuna_cluster.bootstrap})
    for key in (None, b"k"):
        producer.produce(topic, b"v", key, on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(60) == 0
    refused, kept = outcomes
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_RECORD
    assert kept is None
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    cut = TopicPartition(topic, 0, 1)
    with pytest.raises(KafkaException) as raised:
        admin.delete_records([cut])[cut].result(60)
    assert raised.value.args[0].code() == KafkaError.POLICY_VIOLATION


def test_librdkafka_says_that_authentication_failed(lacuna_cluster: Cluster) -> None:
    """Without an answer to the handshake, it assumes that the broker is too old for SASL."""
    failed = threading.Event()
    reasons: list[str] = []

    def heard(error: KafkaError) -> None:
        reasons.append(error.str())
        if error.code() == KafkaError._AUTHENTICATION:
            failed.set()

    producer = Producer(
        {
            "bootstrap.servers": lacuna_cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "user",
            "sasl.password": "secret",
            "error_cb": heard,
        }
    )
    for _ in range(120):
        producer.poll(0.5)
        if failed.is_set():
            break
    assert failed.is_set(), reasons
    assert "not valid in current SASL state" in "".join(reasons)
