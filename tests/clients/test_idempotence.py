"""Tests that idempotent producers write everything once, in order, and learn which records were rejected (S10-S12)."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message
from kafka import KafkaProducer

from .conftest import Topic
from .librd import UNCOMMITTED, producer, read, send

VALUES = [b"%05d" % number for number in range(500)]


def test_librdkafka_in_order_and_once(bootstrap: str, topic: Topic) -> None:
    """S10, S12: five requests are in flight, with small batches."""
    name = topic()
    who = producer(bootstrap, enable_idempotence=True, batch_num_messages=7)
    assert send(who, name, VALUES) == list(range(len(VALUES)))
    assert read(bootstrap, name, UNCOMMITTED).values == VALUES


def test_kafka_python(bootstrap: str, topic: Topic) -> None:
    """S10: kafka-python's idempotent producer writes everything once."""
    name = topic()
    who = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, batch_size=200)
    sent = [who.send(name, value, partition=0) for value in VALUES]
    who.flush(60)
    offsets = [future.get(60).offset for future in sent]
    who.close()
    assert offsets == list(range(len(VALUES)))
    assert read(bootstrap, name, UNCOMMITTED).values == VALUES


async def test_aiokafka(bootstrap: str, topic: Topic) -> None:
    """S10: aiokafka's idempotent producer writes everything once."""
    name = topic()
    who = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=200)
    await who.start()
    try:
        sent = [await who.send(name, value, partition=0) for value in VALUES]
        rows = await asyncio.gather(*sent)
    finally:
        await who.stop()
    assert [row.offset for row in rows] == list(range(len(VALUES)))
    assert read(bootstrap, name, UNCOMMITTED).values == VALUES


INVALID_RECORD = KafkaError.INVALID_RECORD
DIFFERENT = KafkaError._INVALID_DIFFERENT_RECORD


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("keyless", [set(range(10)), {2, 5, 9}])
def test_librdkafka_tells_records_at_fault_from_the_others(
    bootstrap: str, topic: Topic, keyless: set[int], idempotent: bool
) -> None:
    """S11: all ten records are one batch, and the answer is Kafka's. For a single invalid record, librdkafka reports
    the error of the whole batch.
    """
    name = topic(cleanup_policy="compact")
    failed: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is not None
        failed[int(message.value() or b"")] = error.code()

    who = producer(bootstrap, linger_ms=60_000, enable_idempotence=idempotent)
    for number in range(10):
        key = None if number in keyless else b"key"
        who.produce(name, b"%d" % number, key, partition=0, on_delivery=delivered)
    assert who.flush(60) == 0
    expected = {number: INVALID_RECORD if number in keyless else DIFFERENT for number in range(10)}
    assert failed == expected
