"""Tests clients that speak message sets, over a log with transactions and holes (S22, S24).

kafka-python and librdkafka are configured for an old broker. Topic names are long because librdkafka 2.16 rejects a
Metadata v0 response below about seventy bytes from any broker.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lacuna.agent.api import Api
from lacuna.agent.housekeeping import HousekeepingSettings, MergeSettings
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster

NEVER = 1 << 40
PARTS = AgentParts(
    housekeeping=HousekeepingSettings(
        merge_interval_ms=NEVER,
        collect_interval_ms=NEVER,
        merge=MergeSettings(min_extents=2, min_age_ms=0),
    )
)
TIME = 1_700_000_000_000
PRODUCE, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP = 0, 1, 2, 8, 9, 11
VALUES = [letter * 200 for letter in (b"a", b"b", b"c")]
CODECS = ("none", "gzip", "snappy", "lz4")


class Seen(NamedTuple):
    """A record as an application receives it. `time` is -1 if the record has none."""

    offset: int
    value: bytes
    time: int


class Reader(Protocol):
    """A consumer of partition 0."""

    def take(self, count: int, seconds: float = 60.0) -> list[Seen]:
        """Return the next records, at most `count`."""
        ...

    def close(self) -> None: ...


class KafkaPythonReader:
    """kafka-python, reading from an offset or as a member of a group."""

    def __init__(self, bootstrap: str, topic: str, version: str, group: str | None = None) -> None:
        self.partition = kafka.TopicPartition(topic, 0)
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            api_version=tuple(map(int, version.split("."))),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=group,
        )
        if group:
            self.consumer.subscribe([topic])
        else:
            self.consumer.assign([self.partition])

    def take(self, count: int, seconds: float = 60.0) -> list[Seen]:
        # A poll that ends while a SyncGroup is in progress may make kafka-python 3.0 forget that it has to join.
        end = time.monotonic() + seconds
        seen: list[Seen] = []
        while len(seen) < count and (left := end - time.monotonic()) > 0:
            polled = self.consumer.poll(int(left * 1000), max_records=count - len(seen))
            for records in polled.values():
                seen += [Seen(r.offset, r.value, _time(r.timestamp)) for r in records]
        return seen

    def committed_after(self) -> int:
        """Commit the records taken so far, and return the committed offset."""
        self.consumer.commit()
        return int(self.consumer.committed(self.partition))

    def close(self) -> None:
        self.consumer.close()


class LibrdkafkaReader:
    """librdkafka, reading from an offset or as a member of a group."""

    def __init__(self, bootstrap: str, topic: str, version: str, group: str | None = None) -> None:
        self.partition = TopicPartition(topic, 0, 0)
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group or "nobody",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
            | _fallback(version)
        )
        if group:
            self.consumer.subscribe([topic])
        else:
            self.consumer.assign([self.partition])

    def take(self, count: int, seconds: float = 60.0) -> list[Seen]:
        end = time.monotonic() + seconds
        seen: list[Seen] = []
        while len(seen) < count and time.monotonic() < end:
            message = self.consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                value = message.value()
                assert value is not None
                seen.append(Seen(message.offset() or 0, value, _time(message.timestamp()[1])))
        return seen

    def committed_after(self) -> int:
        self.consumer.commit(asynchronous=False)
        return int(self.consumer.committed([self.partition], 60)[0].offset)

    def close(self) -> None:
        self.consumer.close()


def _fallback(version: str) -> dict[str, Any]:
    return {"api.version.request": False, "broker.version.fallback": version, "log_level": 0}


def _time(timestamp: int | None) -> int:
    return timestamp or -1


#: a client, its configured broker version, and the Fetch version that it then sends
READERS: list[tuple[Callable[..., Any], str, int]] = [
    (KafkaPythonReader, "0.8.2", 0),
    (KafkaPythonReader, "0.9", 1),
    (KafkaPythonReader, "0.10.0", 2),
    (KafkaPythonReader, "0.10.1", 3),
    (LibrdkafkaReader, "0.8.2.1", 0),
    (LibrdkafkaReader, "0.9.0.1", 1),
]


def send_by_kafka_python(bootstrap: str, topic: str, version: str, codec: str) -> list[int]:
    """Send three records. Return their offsets."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        api_version=tuple(map(int, version.split("."))),
        compression_type=None if codec == "none" else codec,
        enable_idempotence=False,
        linger_ms=20,
    )
    sent = [
        producer.send(topic, VALUES[index], b"k", timestamp_ms=TIME + index) for index in range(3)
    ]
    try:
        return [record.get(60).offset for record in sent]
    finally:
        producer.close()


def send_by_librdkafka(bootstrap: str, topic: str, version: str, codec: str) -> list[int]:
    """Send three records. Return their offsets."""
    config = {"bootstrap.servers": bootstrap, "compression.codec": codec, "linger.ms": 20}
    producer = Producer(config | _fallback(version))
    offsets: list[int] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None
        offsets.append(message.offset())

    for index in range(3):
        producer.produce(topic, VALUES[index], b"k", timestamp=TIME + index, on_delivery=delivered)
    assert producer.flush(60) == 0
    return offsets


#: a client, its configured broker version, and the Produce version that it then sends
SENDERS: list[tuple[Callable[..., list[int]], str, int]] = [
    (send_by_kafka_python, "0.8.2", 0),
    (send_by_kafka_python, "0.9", 1),
    (send_by_kafka_python, "0.10.0", 2),
    (send_by_librdkafka, "0.8.2.1", 0),
    (send_by_librdkafka, "0.9.0.1", 1),
]
#: a client in a group, its configured broker version, and some (API, version) that it then sends
MEMBERS: list[tuple[Callable[..., Any], str, set[tuple[int, int]]]] = [
    (KafkaPythonReader, "0.8.1", {(LIST_OFFSETS, 0), (OFFSET_COMMIT, 0), (OFFSET_FETCH, 0)}),
    (KafkaPythonReader, "0.8.2", {(LIST_OFFSETS, 0), (OFFSET_COMMIT, 1), (OFFSET_FETCH, 1)}),
    (KafkaPythonReader, "0.9", {(JOIN_GROUP, 0), (OFFSET_COMMIT, 2), (OFFSET_FETCH, 1)}),
    (KafkaPythonReader, "0.10.1", {(JOIN_GROUP, 1), (OFFSET_COMMIT, 2), (OFFSET_FETCH, 1)}),
    (LibrdkafkaReader, "0.9.0.1", {(JOIN_GROUP, 0), (LIST_OFFSETS, 0), (OFFSET_COMMIT, 2)}),
]


@pytest.fixture(scope="module")
def old_cluster() -> Iterator[Cluster]:
    """A cluster that removes aborted records only on a test's request."""
    with Cluster(parts=PARTS) as cluster:
        yield cluster


@pytest.fixture
def name(old_cluster: Cluster) -> str:
    name = f"a-long-name-for-the-sake-of-old-clients-{uuid.uuid4().hex[:12]}"
    old_cluster.create_topic(name, configs={"retention.ms": "-1"})
    return name


@pytest.fixture
def sent_versions(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """Collects (API key, version) of every request that the agent reads during the test."""
    seen: set[tuple[int, int]] = set()

    read = Api.read

    def record(self: Api[Any, Any], body: memoryview, version: int) -> Any:
        seen.add((self.key, version))
        return read(self, body, version)

    monkeypatch.setattr(Api, "read", record)
    return seen


def write(cluster: Cluster, topic: str) -> None:
    """Write offsets 0-2 aborted, 3-4 committed, 5-8 aborted, 9 committed and 10-11 aborted, each in one batch."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for values, is_committed in (
        (b"xxx", False),
        (b"ab", True),
        (b"xxxx", False),
        (b"c", True),
        (b"xx", False),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, bytes([value]), b"k", timestamp=TIME)
            assert producer.flush(60) == 0
        (producer.commit_transaction if is_committed else producer.abort_transaction)(60)


def take_away(cluster: Cluster) -> None:
    housekeeping = cluster.embedded.agents[0].housekeeping
    assert housekeeping is not None
    while cluster.run(housekeeping.merger.run_once()):
        pass


@pytest.mark.parametrize(
    ("reader", "version", "fetch_version"),
    READERS,
    ids=[f"{reader.__name__}-{version}" for reader, version, _ in READERS],
)
def test_s24_old_consumers_pass_holes(
    old_cluster: Cluster,
    name: str,
    sent_versions: set[tuple[int, int]],
    reader: Callable[..., Reader],
    version: str,
    fetch_version: int,
) -> None:
    """They first see aborted records, as they would from Kafka, and then pass holes at the start, middle and end."""
    write(old_cluster, name)
    with contextlib.closing(reader(old_cluster.bootstrap, name, version)) as consumer:
        seen = consumer.take(12)
        assert b"".join(one.value for one in seen) == b"xxxabxxxxcxx"
        assert [one.offset for one in seen] == list(range(12))
    take_away(old_cluster)
    time_told = TIME if fetch_version >= 2 else -1
    with contextlib.closing(reader(old_cluster.bootstrap, name, version)) as consumer:
        assert consumer.take(3) == [
            Seen(3, b"a", time_told),
            Seen(4, b"b", time_told),
            Seen(9, b"c", time_told),
        ]
        assert consumer.take(1, seconds=0.3) == []
        producer = Producer({"bootstrap.servers": old_cluster.bootstrap})
        producer.produce(name, b"new", timestamp=TIME)
        assert producer.flush(60) == 0
        assert consumer.take(1) == [Seen(12, b"new", time_told)]
    assert (FETCH, fetch_version) in sent_versions


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("sender", "version", "produce_version"),
    SENDERS,
    ids=[f"{sender.__name__}-{version}" for sender, version, _ in SENDERS],
)
def test_s24_old_producers(
    old_cluster: Cluster,
    name: str,
    sent_versions: set[tuple[int, int]],
    sender: Callable[..., list[int]],
    version: str,
    produce_version: int,
    codec: str,
) -> None:
    """New and old clients read their records alike. Records of magic 0 have no timestamps."""
    offsets = [*sender(old_cluster.bootstrap, name, version, codec)]
    offsets += sender(old_cluster.bootstrap, name, version, codec)
    assert offsets == list(range(6))
    assert (PRODUCE, produce_version) in sent_versions
    values = [(offset, VALUES[offset % 3]) for offset in range(6)]
    consumer = Consumer({"bootstrap.servers": old_cluster.bootstrap, "group.id": "new"})
    consumer.assign([TopicPartition(name, 0, 0)])
    found = []
    for offset in range(6):
        message = consumer.poll(60)
        assert message is not None
        found.append((message.offset(), message.value()))
        assert message.key() == b"k"
        is_timed = produce_version == 2
        assert message.timestamp()[1] == (TIME + offset % 3 if is_timed else -1)
    consumer.close()
    assert found == values
    with contextlib.closing(KafkaPythonReader(old_cluster.bootstrap, name, "0.9")) as old:
        assert [one[:2] for one in old.take(6)] == values


@pytest.mark.parametrize(
    ("member", "version", "expected"),
    MEMBERS,
    ids=[f"{member.__name__}-{version}" for member, version, _ in MEMBERS],
)
def test_s26_old_members_of_groups(
    old_cluster: Cluster,
    name: str,
    sent_versions: set[tuple[int, int]],
    member: Callable[..., Any],
    version: str,
    expected: set[tuple[int, int]],
) -> None:
    """They join, read, commit, and resume at their committed offsets."""
    write(old_cluster, name)
    take_away(old_cluster)
    with contextlib.closing(member(old_cluster.bootstrap, name, version, name)) as consumer:
        assert [one.offset for one in consumer.take(2)] == [3, 4]
        assert consumer.committed_after() == 5
    with contextlib.closing(member(old_cluster.bootstrap, name, version, name)) as consumer:
        assert [one.offset for one in consumer.take(1)] == [9]
    assert expected <= sent_versions
