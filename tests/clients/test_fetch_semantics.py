"""Records are returned as they were sent: codecs, headers, nulls, times, sizes (S2, S11, S13, S15, S20)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import TIMESTAMP_CREATE_TIME, TopicPartition
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


def test_a_record_larger_than_every_limit(bootstrap: str, topic: Topic) -> None:
    """S15, KIP-74: at least one batch is returned even if it is larger than the limits."""
    name = topic()
    values = [b"s", b"L" * 500_000, b"s"]
    send(producer(bootstrap), name, values)
    got = read(
        bootstrap, name, UNCOMMITTED, fetch_message_max_bytes=1000, fetch_max_bytes=1000,
        message_max_bytes=1000, receive_message_max_bytes=2_000_000,
    )  # fmt: skip
    assert (got.values, got.errors) == (values, [])


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
