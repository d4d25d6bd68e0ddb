"""Tests which records of a rejected batch are reported to the client (S11, KIP-467)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from .conftest import Topic
from .librd import producer

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
