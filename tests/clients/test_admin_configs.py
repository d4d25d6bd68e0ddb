"""Topic configs have their documented effects, as seen through librdkafka. Tests advance the time instead of waiting.

Compaction's configs are tested with compaction (tests/controlplane/verbs/test_compaction.py,
tests/pipeline/compaction). The probes `configs.*` compare values and messages with Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from lacuna.testing import Cluster

from .librd import consumer, eventually, producer, read, send, watermarks
from .wire import Connection

DAY_MS = 86_400_000
#: Within it the ages of all records are held against retention.ms once (RETENTION_CHECK_MS, as Kafka's default).
ROUND_MS = 300_000


@pytest.fixture(scope="module")
def timed() -> Iterator[Cluster]:
    """A cluster whose clock these tests advance."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def who(timed: Cluster) -> Producer:
    return producer(timed.bootstrap)


@pytest.fixture(scope="module")
def timed_admin(timed: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": timed.bootstrap})


def alter(admin: AdminClient, topic: str, **configs: str | None) -> None:
    """Send IncrementalAlterConfigs: SET, or DELETE if the value is None. Names have _ for the dots."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def own_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    """Return the configs that were set."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(60)
    return {name: entry.value for name, entry in found.items() if not entry.is_default}


def refused(who: Producer, topic: str, value: bytes, **more: Any) -> int:
    """Return the code of the error that a record gets."""
    errors: list[KafkaError | None] = []
    who.produce(topic, value, partition=0, on_delivery=lambda e, _: errors.append(e), **more)
    who.flush(60)
    (error,) = errors
    assert error is not None, "it was taken"
    code: int = error.code()
    return code


def stored_bytes(bootstrap: str, topic: str) -> int:
    """Return the size of partition 0 in the object store (DescribeLogDirs)."""
    with Connection(bootstrap) as connection:
        asked = [{"topic": topic, "partitions": [0]}]
        (directory,) = connection.call("describe_log_dirs", 4, topics=asked)["results"]
    size: int = directory["topics"][0]["partitions"][0]["partition_size"]
    return size


def times(bootstrap: str, topic: str, count: int) -> dict[bytes, int]:
    """Return the timestamps of the first records of partition 0 by value."""
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[bytes, int] = {}
    for message in reader.consume(count, 60):
        found[message.value() or b""] = message.timestamp()[1]
    reader.close()
    return found


def test_retention_ms(timed: Cluster, who: Producer, timed_admin: AdminClient) -> None:
    """Older records are deleted, and a later setting applies from then on."""
    topic = timed.create_topic("old", configs={"retention.ms": str(10 * DAY_MS)})
    send(who, topic, [b"a", b"b"])
    timed.advance(9 * DAY_MS)
    assert watermarks(timed.bootstrap, topic) == (0, 2)
    alter(timed_admin, topic, retention_ms=str(DAY_MS))
    timed.advance(ROUND_MS)
    assert watermarks(timed.bootstrap, topic) == (2, 2)


def test_what_is_older_than_retention_when_it_comes_is_there_for_a_while(
    timed: Cluster, who: Producer
) -> None:
    """A replay, or a test with its own timestamps, can read what it wrote, as in Kafka."""
    topic = timed.create_topic("replayed")
    timed.advance(ROUND_MS)  # the next round is that far away
    who.produce(topic, b"a", timestamp=1_000, partition=0)
    who.flush(60)
    timed.advance(ROUND_MS // 2)
    assert times(timed.bootstrap, topic, 1) == {b"a": 1_000}
    timed.advance(ROUND_MS)
    assert watermarks(timed.bootstrap, topic) == (1, 1)


def test_retention_bytes(timed: Cluster, who: Producer) -> None:
    """The oldest records are deleted as long as at least the configured size remains, as in Kafka."""
    topic = timed.create_topic("large", configs={"retention.ms": "-1", "retention.bytes": "25000"})
    for number in range(5):
        send(who, topic, [b"%d" % number * 10_000])
    timed.advance(1000)
    assert watermarks(timed.bootstrap, topic) == (2, 5)
    assert 30_000 < stored_bytes(timed.bootstrap, topic) < 31_000


@pytest.mark.parametrize("policy", ["compact", ""])
def test_without_delete_nothing_is_deleted(
    timed: Cluster, who: Producer, timed_admin: AdminClient, policy: str
) -> None:
    """cleanup.policy: once delete is added, retention works again."""
    configs = {"cleanup.policy": policy, "retention.ms": "1000", "retention.bytes": "1"}
    topic = timed.create_topic(f"kept-{policy}", configs=configs)
    who.produce(topic, b"a", b"key", partition=0)
    who.flush(60)
    timed.advance(DAY_MS)
    assert watermarks(timed.bootstrap, topic) == (0, 1)
    alter(timed_admin, topic, cleanup_policy=f"delete,{policy}")
    timed.advance(1000)
    assert watermarks(timed.bootstrap, topic) == (1, 1)


def test_compacted_topics_need_keys(timed: Cluster, who: Producer) -> None:
    """Tests rule S11."""
    topic = timed.create_topic("keyed", configs={"cleanup.policy": "delete, compact"})
    assert refused(who, topic, b"no key") == KafkaError.INVALID_RECORD


def test_max_message_bytes(timed: Cluster, timed_admin: AdminClient) -> None:
    """From the next batch on."""
    who = producer(timed.bootstrap, message_max_bytes=4_000_000)
    topic = timed.create_topic("sized")
    value = b"x" * 1_500_000
    assert refused(who, topic, value) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(timed_admin, topic, max_message_bytes="2000000")
    assert send(who, topic, [value]) == [0]
    alter(timed_admin, topic, max_message_bytes=None)
    assert refused(who, topic, value) == KafkaError.MSG_SIZE_TOO_LARGE


def test_timestamps(timed: Cluster, who: Producer, timed_admin: AdminClient) -> None:
    """message.timestamp.type, .before.max.ms and .after.max.ms."""
    topic = timed.create_topic("dated", configs={"retention.ms": "-1"})
    now_ms = int(time.time() * 1000)
    who.produce(topic, b"a", partition=0, timestamp=5)
    who.flush(60)
    alter(timed_admin, topic, message_timestamp_before_max_ms=str(1000 * DAY_MS))
    assert refused(who, topic, b"b", timestamp=5) == KafkaError.INVALID_TIMESTAMP
    ahead = now_ms + 5000 * DAY_MS
    assert refused(who, topic, b"c", timestamp=ahead) == KafkaError.INVALID_TIMESTAMP
    alter(timed_admin, topic, message_timestamp_after_max_ms=str(10_000 * DAY_MS))
    who.produce(topic, b"d", partition=0, timestamp=ahead)
    who.flush(60)
    alter(timed_admin, topic, message_timestamp_type="LogAppendTime")
    who.produce(topic, b"e", partition=0, timestamp=5)
    who.flush(60)
    found = times(timed.bootstrap, topic, 3)
    assert (found[b"a"], found[b"d"]) == (5, ahead)
    assert now_ms <= found[b"e"] < ahead


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_type(
    timed: Cluster, who: Producer, timed_admin: AdminClient, codec: str
) -> None:
    """An uncompressed batch becomes smaller, and a compressed one larger, if the config asks for it."""
    configs = {"compression.type": codec, "retention.ms": "-1"}
    topic = timed.create_topic(f"small-{codec}", configs=configs)
    value = b"the same again " * 10_000
    send(who, topic, [value])
    small = stored_bytes(timed.bootstrap, topic)
    assert small < len(value) // 5
    alter(timed_admin, topic, compression_type="uncompressed")
    send(producer(timed.bootstrap, compression_type=codec), topic, [value])
    assert stored_bytes(timed.bootstrap, topic) > small + len(value)
    assert [value for _, value in read(timed.bootstrap, topic).records] == [value, value]


def test_configs_that_tune_a_broker_are_taken(timed: Cluster, timed_admin: AdminClient) -> None:
    """docs/adr/0005: configs that Streams, Connect, MirrorMaker and Terraform set routinely."""
    topic = timed.create_topic("moved")
    taken = {
        "segment_ms": "600000",
        "segment_bytes": "52428800",
        "flush_messages": "1",
        "min_insync_replicas": "2",
        "unclean_leader_election_enable": "false",
        "index_interval_bytes": "4096",
        "min_cleanable_dirty_ratio": "0.1",
        "preallocate": "false",
    }
    alter(timed_admin, topic, **taken)
    expected = {name.replace("_", "."): value for name, value in taken.items()}
    eventually(lambda: own_configs(timed_admin, topic), expected)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("no.such.config", "1", "Unknown topic config name: no.such.config"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
        ("retention.ms", "-2", "Value must be at least -1"),
    ],
)
def test_what_is_refused_says_why(
    timed: Cluster, timed_admin: AdminClient, name: str, value: str, sentence: str
) -> None:
    topic = timed.create_topic(f"refused-{name}")
    with pytest.raises(KafkaException) as caught:
        alter(timed_admin, topic, **{name.replace(".", "_"): value})
    assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert sentence in caught.value.args[0].str()
    assert own_configs(timed_admin, topic) == {}


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_alter_configs_replaces(timed: Cluster, timed_admin: AdminClient) -> None:
    """The older form of the API: configs that are not named return to their defaults."""
    topic = timed.create_topic("replaced", configs={"retention.ms": "5"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.bytes": "7"})
    timed_admin.alter_configs([resource])[resource].result(60)
    eventually(lambda: own_configs(timed_admin, topic), {"retention.bytes": "7"})
