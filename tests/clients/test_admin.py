"""The life of a topic through an admin client (S6)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    NewPartitions,
    NewTopic,
)

from .conftest import Unique
from .librd import eventually, producer, send


def _code(future: object) -> int:
    with pytest.raises(KafkaException) as caught:
        future.result(60)  # type: ignore[attr-defined]
    code: int = caught.value.args[0].code()
    return code


def _partition_count(admin: AdminClient, name: str) -> int:
    topics = admin.list_topics(timeout=60).topics
    return len(topics[name].partitions) if name in topics else 0


def test_topic_life(admin: AdminClient, unique: Unique) -> None:
    """S6: create, reject a second creation, list, grow, delete, and reject requests for the deleted topic."""
    name = unique("life")
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    assert _code(admin.create_topics([NewTopic(name, 2, 1)])[name]) == (
        KafkaError.TOPIC_ALREADY_EXISTS
    )
    eventually(lambda: _partition_count(admin, name), 2)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(60)
    eventually(lambda: _partition_count(admin, name), 5)
    assert _code(admin.create_partitions([NewPartitions(name, 3)])[name]) == (
        KafkaError.INVALID_PARTITIONS
    )
    admin.delete_topics([name])[name].result(60)
    eventually(lambda: _partition_count(admin, name), 0)
    assert _code(admin.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_recreated_topic_begins_empty(admin: AdminClient, bootstrap: str, unique: Unique) -> None:
    """S6: everything is keyed by topic id."""
    name, who = unique("again"), producer(bootstrap)
    for _ in range(3):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
        assert send(who, name, [b"x", b"y"])[-1] == 1
        admin.delete_topics([name])[name].result(60)
        who = producer(bootstrap)
