"""Topics, configs, offsets and groups through admin clients (S6, S7, S21)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient

from .conftest import Topic, Unique
from .librd import UNCOMMITTED, consumer, eventually, producer, read, send, transaction

SPEC: Any = OffsetSpec  # its constructors are not annotated


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


def test_configs(admin: AdminClient, topic: Topic) -> None:
    """A topic's own configs differ from defaults; unknown ones are rejected."""
    resource = ConfigResource(ResourceType.TOPIC, topic(max_message_bytes=54321))
    found = admin.describe_configs([resource])[resource].result(60)
    assert found["max.message.bytes"].value == "54321"
    assert not found["max.message.bytes"].is_default
    assert found["message.timestamp.type"].value == "CreateTime"
    assert found["message.timestamp.type"].is_default
    entry = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    changed = ConfigResource(ResourceType.TOPIC, resource.name, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(60)

    def changed_type() -> str:
        found = admin.describe_configs([resource])[resource].result(60)
        value: str = found["message.timestamp.type"].value
        return value

    eventually(changed_type, "LogAppendTime")
    bad = ConfigResource(
        ResourceType.TOPIC, resource.name,
        incremental_configs=[
            ConfigEntry("no.such.config", "1", incremental_operation=AlterConfigOpType.SET)
        ],
    )  # fmt: skip
    assert _code(admin.incremental_alter_configs([bad])[bad]) == KafkaError.INVALID_CONFIG


def test_list_offsets(
    admin: AdminClient, bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S21: earliest, latest by isolation, by time, and max timestamp."""
    name, plain, tx = topic(), producer(bootstrap), producer(bootstrap, unique("t"))
    for stamp in (1000, 3000, 2000):
        plain.produce(name, b"x", partition=0, timestamp=stamp)
        plain.flush(60)
    transaction(tx, name, [b"a"], commit=False)
    tx.begin_transaction()
    send(tx, name, [b"open"])
    part = TopicPartition(name, 0)

    def ask(spec: Any, isolation: IsolationLevel) -> int:
        future = admin.list_offsets({part: spec}, isolation_level=isolation)[part]
        offset: int = future.result(60).offset
        return offset

    stable, all_of_it = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    marker = 1 if is_kafka else 0
    assert ask(SPEC.earliest(), stable) == 0
    assert ask(SPEC.latest(), stable) == 4 + marker
    assert ask(SPEC.latest(), all_of_it) == 5 + marker
    assert ask(SPEC.for_timestamp(1500), stable) == 1
    assert ask(SPEC.for_timestamp(3000), stable) == 1
    tx.abort_transaction(60)
    eventually(lambda: ask(SPEC.latest(), stable), 5 + 2 * marker)


def test_max_timestamp(admin: AdminClient, bootstrap: str, topic: Topic) -> None:
    """S21, KIP-734: the offset of the largest timestamp."""
    name, plain = topic(), producer(bootstrap)
    for stamp in (1000, 3000, 2000):
        plain.produce(name, b"x", partition=0, timestamp=stamp)
        plain.flush(60)
    part = TopicPartition(name, 0)
    found = admin.list_offsets({part: SPEC.max_timestamp()})[part].result(60)
    assert (found.offset, found.timestamp) == (1, 3000)


def test_delete_records(admin: AdminClient, bootstrap: str, topic: Topic) -> None:
    """S7, S13: the log starts later, and earlier offsets are out of range."""
    name = topic()
    send(producer(bootstrap), name, [b"%d" % i for i in range(10)])
    part = TopicPartition(name, 0, 4)
    deleted = admin.delete_records([part])[part].result(60)
    assert deleted.low_watermark == 4
    assert read(bootstrap, name).offsets == [4, 5, 6, 7, 8, 9]
    out = read(bootstrap, name, UNCOMMITTED, start=2)
    assert out.records == []
    assert any("out of range" in line for line in out.errors)


def test_groups(admin: AdminClient, bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S26: offsets of a group are listed, altered, and deleted with it."""
    name, group = topic(), unique("g")
    who = consumer(bootstrap, group_id=group)
    who.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    who.close()
    ask = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([ask])[group].result(60)
    assert [row.offset for row in found.topic_partitions] == [7]
    change = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 3)])
    admin.alter_consumer_group_offsets([change])[group].result(60)
    found = admin.list_consumer_group_offsets([ask])[group].result(60)
    assert [row.offset for row in found.topic_partitions] == [3]
    listed = admin.list_consumer_groups().result(60)
    assert group in [row.group_id for row in listed.valid]
    described = admin.describe_consumer_groups([group])[group].result(60)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(60)
    assert _code(admin.delete_consumer_groups([group])[group]) == KafkaError.GROUP_ID_NOT_FOUND


def test_cluster(admin: AdminClient) -> None:
    """DescribeCluster names the brokers and the cluster's id."""
    found = admin.describe_cluster().result(60)
    assert found.cluster_id
    assert len(found.nodes) >= 1


def test_kafka_python_admin(bootstrap: str, topic: Topic) -> None:
    """Another admin client sees the same topics."""
    name = topic(partitions=3)
    who = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        eventually(lambda: name in who.list_topics(), True)
        described = who.describe_topics([name])
        assert len(described[0]["partitions"]) == 3
    finally:
        who.close()
