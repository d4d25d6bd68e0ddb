"""Tests classic consumer groups with three clients, and consume-process-produce loops (S26)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyTopicPartition
from kafka.structs import OffsetAndMetadata

from .conftest import Topic, Unique
from .librd import COMMITTED, end, producer, read, send, watermarks


def _member(bootstrap: str, group: str, name: str, **config: object) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": COMMITTED,
        "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": 200,
        "fetch.wait.max.ms": 100,
    }
    settings |= {key.replace("_", "."): value for key, value in config.items()}
    made = Consumer(settings)
    made.subscribe([name])
    return made


def _poll_until(
    members: list[Consumer], done: Callable[[], bool], seconds: float = 60
) -> list[Any]:
    """Poll the members in turn until `done`. Return the messages that they received."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "the group did not get there"
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                got.append(message)
    return got


def _partitions(member: Consumer) -> set[int]:
    return {row.partition for row in member.assignment()}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_move_between_members(
    bootstrap: str, topic: Topic, unique: Unique, strategy: str
) -> None:
    """S26: members join, rebalance and leave with eager and cooperative assignors."""
    name, group = topic(partitions=4), unique("g")
    config = {"partition_assignment_strategy": strategy}
    one = _member(bootstrap, group, name, **config)
    _poll_until([one], lambda: len(_partitions(one)) == 4)
    two = _member(bootstrap, group, name, **config)
    both = [one, two]
    _poll_until(both, lambda: [len(_partitions(m)) for m in both] == [2, 2])
    assert _partitions(one) | _partitions(two) == {0, 1, 2, 3}
    two.close()
    _poll_until([one], lambda: len(_partitions(one)) == 4)
    one.close()


def test_static_member_keeps_its_partitions(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S26: a static member that returns within its session causes no rebalance for the others."""
    name, group = topic(partitions=2), unique("g")
    moves: list[str] = []
    one = _member(bootstrap, group, name, group_instance_id="one")
    one.subscribe([name], on_revoke=lambda *_: moves.append("revoked"))
    two = _member(bootstrap, group, name, group_instance_id="two")
    both = [one, two]
    _poll_until(both, lambda: [len(_partitions(m)) for m in both] == [1, 1])
    held = _partitions(two)
    two.close()
    moves.clear()
    two = _member(bootstrap, group, name, group_instance_id="two")
    _poll_until([one, two], lambda: _partitions(two) == held)
    assert moves == []
    one.close()
    two.close()


def test_offsets_in_a_transaction(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S26, KIP-447: offsets sent in a transaction count only once it commits."""
    source, sink, group = topic(), topic(), unique("g")
    send(producer(bootstrap), source, [b"0", b"1", b"2"])
    who = _member(bootstrap, group, source)
    _poll_until([who], lambda: bool(who.assignment()))
    writer = producer(bootstrap, unique("t"))
    place = TopicPartition(source, 0)
    for commit, offset, expected in ((False, 2, -1001), (True, 2, 2), (False, 3, 2)):
        writer.begin_transaction()
        send(writer, sink, [b"%d" % offset])
        writer.send_offsets_to_transaction(
            [TopicPartition(source, 0, offset)], who.consumer_group_metadata(), 30
        )
        end(writer, commit=commit)
        assert who.committed([place], 60)[0].offset == expected
    who.close()
    assert read(bootstrap, sink).values == [b"2"]


def _positions(member: Consumer) -> list[int]:
    return [row.offset for row in member.position(member.assignment())]


def _transform(
    bootstrap: str, group: str, tid: str, source: str, sink: str, stop_after: int
) -> int:
    """Run consume-process-produce to the end, or stop silently in the middle of a transaction."""
    reader, writer = _member(bootstrap, group, source), producer(bootstrap, tid)
    last = watermarks(bootstrap, source)[1]
    done = 0
    deadline = time.monotonic() + 60
    while done < stop_after and _positions(reader) != [last]:
        assert time.monotonic() < deadline, "the group did not get there"
        messages = [m for m in reader.consume(5, 0.1) if m.error() is None]
        if not messages:
            continue
        writer.begin_transaction()
        for message in messages:
            writer.produce(sink, message.value(), partition=0)
        writer.flush(60)
        done += len(messages)
        if done >= stop_after:
            break
        writer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), 30
        )
        writer.commit_transaction(60)
    reader.close()
    return done


def test_exactly_once_over_crashes(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S3, S8, S26: a worker that dies mid-transaction causes no duplicate and no loss."""
    source, sink, group, tid = topic(), topic(), unique("g"), unique("t")
    values = [b"%03d" % i for i in range(60)]
    send(producer(bootstrap), source, values)
    for stop_after in (12, 17, 1000):
        _transform(bootstrap, group, tid, source, sink, stop_after)
    assert read(bootstrap, sink).values == values


@pytest.fixture
def python_producer(bootstrap: str, unique: Unique) -> Iterator[KafkaProducer]:
    made = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("t"))
    made.init_transactions()
    yield made
    made.close()


def test_kafka_python_group_and_transaction(
    bootstrap: str, topic: Topic, unique: Unique, python_producer: KafkaProducer
) -> None:
    """S26: kafka-python commits offsets in a transaction, and its group reads them."""
    source, group = topic(), unique("g")
    part = PyTopicPartition(source, 0)
    python_producer.begin_transaction()
    python_producer.send(source, b"aborted", partition=0)
    python_producer.flush()
    python_producer.abort_transaction()
    python_producer.begin_transaction()
    offset = python_producer.send(source, b"kept", partition=0).get(60).offset
    python_producer.commit_transaction()
    who = KafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level=COMMITTED,
    )  # fmt: skip
    rows: list[Any] = []
    deadline = time.monotonic() + 60
    while not rows and time.monotonic() < deadline:
        rows = [row for found in who.poll(timeout_ms=60_000).values() for row in found]
    assert [(row.offset, row.value) for row in rows] == [(offset, b"kept")]
    who.commit({part: OffsetAndMetadata(offset + 1, "note", -1)})
    assert who.committed(part) == offset + 1
    who.close()


async def test_aiokafka_group_and_transaction(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S26: aiokafka's send_offsets_to_transaction works in aborted and committed transactions."""
    source, sink, group = topic(), topic(), unique("g")
    send(producer(bootstrap), source, [b"a", b"b"])
    reader = AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
        auto_offset_reset="earliest", isolation_level=COMMITTED,
    )  # fmt: skip
    writer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("t"))
    await reader.start()
    await writer.start()
    try:
        message = await reader.getone()
        part = AioTopicPartition(source, 0)
        await writer.begin_transaction()
        await writer.send_and_wait(sink, b"no", partition=0)
        await writer.send_offsets_to_transaction({part: message.offset + 1}, group)
        await writer.abort_transaction()
        assert await reader.committed(part) is None
        async with writer.transaction():
            await writer.send_and_wait(sink, b"yes", partition=0)
            await writer.send_offsets_to_transaction({part: message.offset + 1}, group)
        deadline = time.monotonic() + 60
        while await reader.committed(part) is None and time.monotonic() < deadline:
            pass  # aiokafka does not ask for stable offsets, and Kafka's marker may still come
        assert await reader.committed(part) == 1
    finally:
        await writer.stop()
        await reader.stop()
    assert read(bootstrap, sink).values == [b"yes"]
