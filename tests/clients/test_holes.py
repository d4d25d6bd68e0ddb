"""Tests how each client reads across the holes that aborted records leave (S14-S18; seed 004_)."""

from __future__ import annotations

import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyTopicPartition

from .conftest import Topic, Unique
from .librd import COMMITTED, UNCOMMITTED, consumer, producer, read, send, transaction, watermarks

PLAIN_FETCH_BYTES = 100_000


def _aborted(bootstrap: str, name: str, transactional_id: str, count: int) -> list[int]:
    who = producer(bootstrap, transactional_id, linger_ms=5)
    return transaction(who, name, (b"aborted-%06d" % i for i in range(count)), commit=False)


def _between_holes(bootstrap: str, name: str, unique: Unique, *records: list[bytes]) -> list[int]:
    """Write records with holes before, between and after them. Return the offsets of the records."""
    kept: list[int] = []
    _aborted(bootstrap, name, unique("t"), 7)
    for values in records:
        kept += send(producer(bootstrap), name, values)
        _aborted(bootstrap, name, unique("t"), 20)
    return kept


def test_seed_004_continues_at_offset_11(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S16, S17 (004_): after a wholly aborted range, the next fetch requests offset 11.

    Kafka has 10 records and a control record there. Lacuna has 11 records, because it reserves no offset for control
    records.
    """
    name = topic()
    _aborted(bootstrap, name, unique("t"), 10 if is_kafka else 11)
    hole = read(bootstrap, name)
    assert (hole.records, hole.position, hole.errors) == ([], 11, [])
    assert send(producer(bootstrap), name, [b"next"]) == [11]
    after = read(bootstrap, name)
    assert (after.records, after.errors) == ([(11, b"next")], [])


@pytest.mark.parametrize("start", [0, 1, 5, 9])
def test_asked_in_the_middle_of_a_hole(
    bootstrap: str, topic: Topic, unique: Unique, start: int
) -> None:
    """S15, S16: a fetch at any offset in the hole returns the record after it."""
    name = topic()
    _aborted(bootstrap, name, unique("t"), 10)
    (after,) = send(producer(bootstrap), name, [b"next"])
    got = read(bootstrap, name, start=start)
    assert (got.records, got.errors) == ([(after, b"next")], [])


def test_aborted_start_middle_and_tail(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S14, S16: position and lag pass holes at the start, in the middle and at the end."""
    name = topic()
    kept = _between_holes(bootstrap, name, unique, [b"a", b"b"], [b"c"])
    got = read(bootstrap, name)
    assert got.records == list(zip(kept, [b"a", b"b", b"c"], strict=True))
    assert got.errors == []
    assert got.position == watermarks(bootstrap, name)[1]
    inside_tail = read(bootstrap, name, start=got.position - 3)
    assert (inside_tail.records, inside_tail.errors) == ([], [])


def test_hole_inside_one_answer_between_batches(
    bootstrap: str, topic: Topic, unique: Unique
) -> None:
    """S16: aborted and committed batches alternate without loss or duplicates."""
    name = topic()
    who = producer(bootstrap, unique("t"))
    kept: list[int] = []
    for number in range(30):
        commit = number % 2 == 0
        offsets = transaction(who, name, [b"%d" % number], commit=commit)
        kept += offsets if commit else []
    for start in (0, kept[3], kept[3] + 1, kept[10] + 1):
        got = read(bootstrap, name, start=start)
        assert got.offsets == [offset for offset in kept if offset >= start]


def test_100_000_aborted_records(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S17, S18: librdkafka immediately passes 100,000 aborted records, without error or payload, if they are all that
    it requests, the end of a log, or are followed by another record.
    """
    name, plain = topic(), producer(bootstrap)
    kept = send(plain, name, [b"before"])
    _aborted(bootstrap, name, unique("t"), 100_000)
    found = [(read(bootstrap, name), kept), (read(bootstrap, name, start=kept[0] + 1), [])]
    ends = [watermarks(bootstrap, name)[1]] * 2
    last = send(plain, name, [b"after"])
    found.append((read(bootstrap, name, start=kept[0] + 1), last))
    ends.append(last[0] + 1)
    assert [got.position for got, _ in found] == ends
    for got, wanted in found:
        assert (got.offsets, got.errors) == (wanted, [])
        assert is_kafka or got.rx_bytes < PLAIN_FETCH_BYTES
        assert is_kafka or got.prompt_fetches < 20
    everything = len(read(bootstrap, name, UNCOMMITTED).records)
    if is_kafka:
        assert everything == 100_002
    else:  # S14: a merge may have dropped aborted records by now
        assert 2 <= everything <= 100_002


def test_fetch_size_does_not_grow_over_holes(
    bootstrap: str, topic: Topic, unique: Unique, is_kafka: bool
) -> None:
    """S17: librdkafka would double its fetch size at each batch that it cannot read, and finally fail."""
    name = topic()
    for _ in range(20):
        _aborted(bootstrap, name, unique("t"), 3)
    got = read(
        bootstrap, name, max_partition_fetch_bytes=1024, fetch_max_bytes=4096,
        message_max_bytes=4096, receive_message_max_bytes=8192,
    )  # fmt: skip
    assert (got.records, got.errors) == ([], [])
    assert got.position == watermarks(bootstrap, name)[1] == 60 + 20 * is_kafka


def test_committed_lag_reaches_zero(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S16: a group that commits past an aborted tail commits the end of the log, so its lag is 0."""
    name = topic()
    send(producer(bootstrap), name, [b"a"])
    _aborted(bootstrap, name, unique("t"), 50)
    who = consumer(bootstrap, COMMITTED, group_id=unique("g"))
    who.assign([TopicPartition(name, 0, 0)])
    end = watermarks(bootstrap, name)[1]
    position, deadline = 0, time.monotonic() + 60
    while position != end:
        assert time.monotonic() < deadline, position
        who.poll(0.1)
        position = who.position([TopicPartition(name, 0)])[0].offset
    who.commit(offsets=[TopicPartition(name, 0, position)], asynchronous=False)
    committed = who.committed([TopicPartition(name, 0)], 60)[0].offset
    who.close()
    assert end - committed == 0


def test_kafka_python_over_holes(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S14, S16: kafka-python passes a hole at the start, in the middle and at the tail."""
    name = topic()
    kept = _between_holes(bootstrap, name, unique, [b"a"], [b"b"])
    end = watermarks(bootstrap, name)[1]
    who = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=COMMITTED, enable_auto_commit=False,
        group_id=None, auto_offset_reset="none",
    )  # fmt: skip
    part = PyTopicPartition(name, 0)
    who.assign([part])
    who.seek(part, 3)
    found: list[int] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for rows in who.poll(timeout_ms=200).values():
            found += [row.offset for row in rows]
        if who.position(part) >= end:
            break
    position = who.position(part)
    who.close()
    assert (found, position) == (kept, end)


async def test_aiokafka_over_holes(bootstrap: str, topic: Topic, unique: Unique) -> None:
    """S14, S16: aiokafka passes a hole at the start, in the middle and at the tail."""
    name = topic()
    kept = _between_holes(bootstrap, name, unique, [b"a"], [b"b"])
    end = watermarks(bootstrap, name)[1]
    who = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=COMMITTED, enable_auto_commit=False
    )
    await who.start()
    try:
        part = AioTopicPartition(name, 0)
        who.assign([part])
        who.seek(part, 3)
        found: list[int] = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for rows in (await who.getmany(timeout_ms=200)).values():
                found += [row.offset for row in rows]
            if await who.position(part) >= end:
                break
        position = await who.position(part)
    finally:
        await who.stop()
    assert (found, position) == (kept, end)
