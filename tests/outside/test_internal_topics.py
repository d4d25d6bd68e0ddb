"""Tests tools that read __consumer_offsets and __transaction_state: clients and Kafka's own formatters (ADR 43)."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from bench.kafka import jars
from lacuna.controlplane.shared.internal_topics import PARTITION_COUNT, partition_of
from lacuna.testing import Cluster
from lacuna.wire.records import (
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
    OffsetCommitKey,
)

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
INTERNAL = (OFFSETS, TRANSACTIONS)
ONGOING, COMPLETE_ABORT = 1, 5
PATIENCE = 60


def committed(message: Message) -> tuple[str, str, int, int | None]:
    """Return the group, topic, partition and offset of a commit. The offset is None for a tombstone."""
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert struct.unpack_from(">h", key) == (OFFSET_COMMIT_KEY.api_key,)
    named: OffsetCommitKey = OFFSET_COMMIT_KEY.read(memoryview(key)[2:], 0)
    if value is None:
        return (*named, None)
    assert isinstance(value, bytes)
    (version,) = struct.unpack_from(">h", value)
    return (*named, OFFSET_COMMIT_VALUE.read(memoryview(value)[2:], version).offset)


class Tool:
    """Tails the records about one group or transactional id."""

    def __init__(self, cluster: Cluster, topic: str, name: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"tool-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        self.where = TopicPartition(topic, partition_of(name))
        _, self.end = self.consumer.get_watermark_offsets(self.where, timeout=PATIENCE)
        self.where.offset = self.end
        self.consumer.assign([self.where])

    def next(self) -> Message:
        message = self.consumer.poll(PATIENCE)
        assert message is not None
        assert message.error() is None, message.error()
        return message


@pytest.fixture
def tool(lacuna_cluster: Cluster) -> Iterator[Callable[[str, str], Tool]]:
    made: list[Tool] = []

    def make(topic: str, name: str) -> Tool:
        made.append(Tool(lacuna_cluster, topic, name))
        return made[-1]

    yield make
    for each in made:
        each.consumer.close()


@pytest.fixture
def member(lacuna_cluster: Cluster) -> Iterator[Callable[[str], Consumer]]:
    made: list[Consumer] = []

    def make(group_id: str) -> Consumer:
        settings = {"bootstrap.servers": lacuna_cluster.bootstrap, "group.id": group_id}
        made.append(Consumer(settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.slow
def test_commits_arrive_at_a_tool_that_tails(
    lacuna_topic: Callable[..., str],
    tool: Callable[[str, str], Tool],
    member: Callable[[str], Consumer],
) -> None:
    topic, group_id = lacuna_topic(), f"g-{uuid.uuid4()}"
    tail, consumer = tool(OFFSETS, group_id), member(group_id)
    seen = []
    for offset in range(3):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        message = tail.next()
        assert committed(message) == (group_id, topic, 0, offset)
        seen.append(message.offset())
    assert seen == [tail.end, tail.end + 1, tail.end + 2]
    _, end = tail.consumer.get_watermark_offsets(tail.where, timeout=PATIENCE)
    assert end == tail.end + 3
    _, timestamp = message.timestamp()
    found = TopicPartition(OFFSETS, tail.where.partition, timestamp)
    (found,) = tail.consumer.offsets_for_times([found], timeout=PATIENCE)
    assert found.offset == seen[-1]


def test_records_keep_their_offsets_over_a_crash(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders")
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    for offset in range(3):
        member.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    member.close()
    cluster.kill()
    cluster.start()
    tail = Tool(cluster, OFFSETS, "g")
    assert tail.end == 3
    tail.where.offset = 0
    tail.consumer.assign([tail.where])
    message = tail.next()
    assert (message.offset(), committed(message)) == (2, ("g", "orders", 0, 2))
    tail.consumer.close()


def test_internal_topics_are_described_as_internal(
    lacuna_cluster: Cluster,
    lacuna_topic: Callable[..., str],
    member: Callable[[str], Consumer],
) -> None:
    where = TopicPartition(lacuna_topic(), 0, 1)
    member(f"g-{uuid.uuid4()}").commit(offsets=[where], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    (described,) = admin.describe_topics(TopicCollection([OFFSETS])).values()
    topic = described.result(PATIENCE)
    assert topic.is_internal
    assert len(topic.partitions) == PARTITION_COUNT
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS)
    configs = admin.describe_configs([resource])[resource].result(PATIENCE)
    assert configs["cleanup.policy"].value == "compact"
    # Sessions hear at the next tick that a topic has its first record.
    until = time.monotonic() + PATIENCE
    while OFFSETS not in admin.list_topics(timeout=PATIENCE).topics:
        assert time.monotonic() < until


@pytest.mark.parametrize("topic", INTERNAL)
def test_internal_topics_cannot_be_written_to(lacuna_cluster: Cluster, topic: str) -> None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": lacuna_cluster.bootstrap})
    producer.produce(topic, b"v", b"k", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE) == 0
    (error,) = outcomes
    assert error is not None
    assert error.code() == KafkaError.TOPIC_EXCEPTION


def refusal(futures: dict[Any, Any]) -> KafkaError:
    (future,) = futures.values()
    with pytest.raises(KafkaException) as raised:
        future.result(PATIENCE)
    error: KafkaError = raised.value.args[0]
    return error


@pytest.mark.parametrize("topic", INTERNAL)
def test_internal_topics_cannot_be_changed(lacuna_cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    created = refusal(admin.create_topics([NewTopic(topic, 1)]))
    assert created.code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(admin.delete_topics([topic])).code() == KafkaError.POLICY_VIOLATION
    grown = refusal(admin.create_partitions([NewPartitions(topic, 60)]))
    assert grown.code() == KafkaError.POLICY_VIOLATION
    assert "derived from the control plane's state" in grown.str()
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    setting = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    altered = refusal(admin.incremental_alter_configs([setting]))
    assert altered.code() == KafkaError.POLICY_VIOLATION
    cut = refusal(admin.delete_records([TopicPartition(topic, 0, 0)]))
    assert cut.code() == KafkaError.TOPIC_EXCEPTION


def printed(cluster: Cluster, topic: str, formatter: str, *more: str) -> Iterator[dict[str, Any]]:
    """Return the output of kafka-console-consumer."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
    command += ["org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"]
    command += ["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"]
    command += ["--timeout-ms", "5000", *more]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    text, decoder = ran.stdout.strip(), json.JSONDecoder()
    assert text, ran.stderr[-2000:]
    at = 0
    while at < len(text):
        found, at = decoder.raw_decode(text, at)
        yield found


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
)
def test_kafkas_formatters_print_what_there_is(lacuna_private_cluster: Cluster) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders")
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce("orders", b"v")
    producer.commit_transaction(PATIENCE)
    classic = Consumer(settings | {"group.id": "classic", "client.id": "me"})
    modern = Consumer(settings | {"group.id": "modern", "group.protocol": "consumer"})
    for consumer in (classic, modern):
        consumer.subscribe(["orders"])
        assert consumer.poll(PATIENCE) is not None
    modern.commit(asynchronous=False)
    classic.commit(offsets=[TopicPartition("orders", 0, 1, "note")], asynchronous=False)
    producer.begin_transaction()
    producer.produce("orders", b"v")
    producer.flush(PATIENCE)

    offsets = {
        each["key"]["data"]["group"]: each
        for each in printed(cluster, OFFSETS, "OffsetsMessageFormatter")
    }
    assert offsets.keys() == {"classic", "modern"}
    row = offsets["classic"]
    assert row["key"]["data"] == {"group": "classic", "topic": "orders", "partition": 0}
    assert row["value"]["version"] == 3
    assert row["value"]["data"]["offset"] == 1
    assert row["value"]["data"]["metadata"].rstrip("\0") == "note"  # confluent-kafka sends a 0 more

    groups = {
        each["key"]["data"]["group"]: each["value"]["data"]
        for each in printed(cluster, OFFSETS, "GroupMetadataMessageFormatter")
    }
    found = groups["classic"]
    assert (found["protocolType"], found["generation"]) == ("consumer", 1)
    (only,) = found["members"]
    assert (only["clientId"], only["memberId"]) == ("me", found["leader"])
    assert "modern" not in groups

    (state,) = printed(cluster, TRANSACTIONS, "TransactionLogMessageFormatter")
    assert state["key"]["data"] == {"transactionalId": "t"}
    data = state["value"]["data"]
    assert data["transactionStatus"] == ONGOING
    assert data["transactionPartitions"] == [{"topic": "orders", "partitionIds": [0]}]
    producer.abort_transaction(PATIENCE)
    (state,) = printed(cluster, TRANSACTIONS, "TransactionLogMessageFormatter")
    assert state["value"]["data"]["transactionStatus"] == COMPLETE_ABORT
    for consumer in (classic, modern):
        consumer.close()
