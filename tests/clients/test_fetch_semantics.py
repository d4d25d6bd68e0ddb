"""Records come back as they were sent: codecs, headers, nulls, times, sizes (S2, S11, S13, S15, S20)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyTopicPartition

from .conftest import Topic
from .librd import UNCOMMITTED, consumer, producer, read, send

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
ROWS: list[tuple[bytes | None, bytes | None, Any]] = [
    (b"key", b"value", []),
    (None, b"no key", []),
    (b"tombstone", None, []),
    (b"", b"", [("h", b"1"), ("h", b"2"), ("empty", b"")]),
    (b"big", bytes(range(256)) * 400, [("name", b"\xff\x00")]),
]
SENT: list[Row] = [(i, *row) for i, row in enumerate(ROWS)]
TIME = 1_760_000_000_000


def _by_librdkafka(bootstrap: str, name: str, codec: str) -> None:
    who = producer(bootstrap, compression_type=codec, linger_ms=20)
    for offset, (key, value, headers) in enumerate(ROWS):
        who.produce(name, value, key, partition=0, headers=headers, timestamp=TIME + offset)
    assert who.flush(60) == 0


def _by_kafka_python(bootstrap: str, name: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    who = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)
    for offset, (key, value, headers) in enumerate(ROWS):
        who.send(name, value, key, headers, partition=0, timestamp_ms=TIME + offset)
    who.flush(60)
    who.close()


async def _by_aiokafka(bootstrap: str, name: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    who = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)
    await who.start()
    try:
        for offset, (key, value, headers) in enumerate(ROWS):
            await who.send(name, value, key, 0, timestamp_ms=TIME + offset, headers=headers)
        await who.flush()
    finally:
        await who.stop()


def _to_librdkafka(bootstrap: str, name: str) -> list[Row]:
    who = consumer(bootstrap, UNCOMMITTED)
    who.assign([TopicPartition(name, 0, 0)])
    rows: list[Any] = []
    deadline = time.monotonic() + 60
    while len(rows) < len(ROWS) and time.monotonic() < deadline:
        message = who.poll(0.5)
        if message is not None and message.error() is None:
            assert message.timestamp() == (TIMESTAMP_CREATE_TIME, TIME + len(rows))
            rows.append((message.offset(), message.key(), message.value(), message.headers() or []))
    who.close()
    return rows


def _to_kafka_python(bootstrap: str, name: str) -> list[Row]:
    who = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    part = PyTopicPartition(name, 0)
    who.assign([part])
    who.seek(part, 0)
    rows: list[Any] = []
    deadline = time.monotonic() + 60
    while len(rows) < len(ROWS) and time.monotonic() < deadline:
        rows += [row for found in who.poll(timeout_ms=500).values() for row in found]
    who.close()
    assert [row.timestamp for row in rows] == [TIME + i for i in range(len(ROWS))]
    return [(row.offset, row.key, row.value, list(row.headers)) for row in rows]


async def _to_aiokafka(bootstrap: str, name: str) -> list[Row]:
    who = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await who.start()
    try:
        part = AioTopicPartition(name, 0)
        who.assign([part])
        who.seek(part, 0)
        rows = [await who.getone() for _ in ROWS]
    finally:
        await who.stop()
    assert [row.timestamp for row in rows] == [TIME + i for i in range(len(ROWS))]
    return [(row.offset, row.key, row.value, list(row.headers)) for row in rows]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", ["librdkafka", "kafka-python", "aiokafka"])
async def test_every_client_reads_what_every_client_wrote(
    bootstrap: str, topic: Topic, writer: str, codec: str
) -> None:
    """S11, S19, S20: byte-identical keys, values, headers and timestamps, in every codec."""
    name = topic()
    if writer == "librdkafka":
        _by_librdkafka(bootstrap, name, codec)
    elif writer == "kafka-python":
        _by_kafka_python(bootstrap, name, codec)
    else:
        await _by_aiokafka(bootstrap, name, codec)
    assert _to_librdkafka(bootstrap, name) == SENT
    assert _to_kafka_python(bootstrap, name) == SENT
    assert await _to_aiokafka(bootstrap, name) == SENT


def test_log_append_time(bootstrap: str, topic: Topic) -> None:
    """S11: the broker's time, in the answer and in the log."""
    name = topic(message_timestamp_type="LogAppendTime")
    told: list[tuple[int, int]] = []
    who = producer(bootstrap)
    who.produce(
        name, b"x", partition=0, timestamp=TIME, on_delivery=lambda _, m: told.append(m.timestamp())
    )
    who.flush(60)
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(name, 0, 0)])
    message = reader.poll(60)
    reader.close()
    assert message is not None
    assert message.timestamp() == told[0]
    assert told[0][0] == TIMESTAMP_LOG_APPEND_TIME
    assert told[0][1] > TIME


def test_offsets_for_times(bootstrap: str, topic: Topic) -> None:
    """S21: the first record at or after a time, or the end if there is none."""
    name, who = topic(), producer(bootstrap)
    for offset in range(20):
        who.produce(name, b"x", partition=0, timestamp=TIME + 10 * offset)
    who.flush(60)
    reader = consumer(bootstrap)
    found = [
        reader.offsets_for_times([TopicPartition(name, 0, TIME + delta)], 60)[0].offset
        for delta in (-5, 0, 41, 190)
    ]
    beyond = reader.offsets_for_times([TopicPartition(name, 0, TIME + 191)], 60)[0].offset
    reader.close()
    assert found == [0, 0, 5, 19]
    assert beyond in (-1, -1001)


def test_a_record_larger_than_every_limit(bootstrap: str, topic: Topic) -> None:
    """S15, KIP-74: at least one batch comes even if it is larger than the limits."""
    name = topic()
    values = [b"s", b"L" * 500_000, b"s"]
    send(producer(bootstrap), name, values)
    got = read(
        bootstrap, name, UNCOMMITTED, fetch_message_max_bytes=1000, fetch_max_bytes=1000,
        message_max_bytes=1000, receive_message_max_bytes=2_000_000,
    )  # fmt: skip
    assert (got.values, got.errors) == (values, [])


@pytest.mark.parametrize("start", [0, 1, 57, 98, 99])
def test_start_inside_a_batch(bootstrap: str, topic: Topic, start: int) -> None:
    """S15: the client skips records before the requested offset."""
    name = topic()
    send(
        producer(bootstrap, linger_ms=50, compression_type="lz4"),
        name,
        [b"%d" % i for i in range(100)],
    )
    assert read(bootstrap, name, UNCOMMITTED, start=start).offsets == list(range(start, 100))


def test_out_of_range_resets(bootstrap: str, topic: Topic) -> None:
    """S7, S13: beyond the end, a client resets according to its own policy, and to the right offset."""
    name = topic()
    send(producer(bootstrap), name, [b"a", b"b"])
    got = read(bootstrap, name, UNCOMMITTED, start=999, auto_offset_reset="earliest")
    assert got.offsets == [0, 1]


def test_a_long_fetch_session(bootstrap: str, topic: Topic) -> None:
    """S21, KIP-227: one consumer over 20 partitions, with records in varying partitions."""
    name = topic(partitions=20)
    who, writer = consumer(bootstrap, UNCOMMITTED), producer(bootstrap)
    who.assign([TopicPartition(name, partition, 0) for partition in range(20)])
    sent: list[tuple[int, bytes]] = []
    got: list[Any] = []
    for number in range(60):
        value = json.dumps(number).encode()
        partition = (number * 7) % 20
        send(writer, name, [value], partition)
        sent.append((partition, value))
        deadline = time.monotonic() + 60
        while len(got) < len(sent) and time.monotonic() < deadline:
            message = who.poll(0.5)
            if message is not None and message.error() is None:
                got.append((message.partition(), message.value()))
    who.close()
    assert got == sent


async def test_a_produced_record_is_there_at_once(bootstrap: str, topic: Topic) -> None:
    """S2: an acknowledged record is readable, with acks=1 as with acks=all."""
    name = topic()
    for number, acks in enumerate(("1", "all", "1", "all")):
        send(producer(bootstrap, acks=acks), name, [b"%d" % number])
        assert len(read(bootstrap, name, UNCOMMITTED).records) == number + 1


def test_topics_are_made_at_first_use(bootstrap: str, unique: Callable[[str], str]) -> None:
    """A topic is created on first use, as by Kafka's default."""
    name = unique("auto")
    assert send(producer(bootstrap), name, [b"x"]) == [0]
    assert read(bootstrap, name, UNCOMMITTED).values == [b"x"]
