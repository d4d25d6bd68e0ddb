"""Tests that produced message sets get the error of Kafka 3.9, or one of the listed exceptions (S23, S24)."""

from __future__ import annotations

import json

import pytest

from lacuna.logstore.records.errors import KafkaErrorName, RecordsError
from lacuna.logstore.records.legacy import to_batch
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.golden.legacy_cases import ANSWERS, CASES, is_compacted

GOLDEN: dict[str, list[int]] = json.loads(ANSWERS.read_text())
NONE = 0
CODES = {
    KafkaErrorName.CORRUPT_MESSAGE: 2,
    KafkaErrorName.MESSAGE_TOO_LARGE: 10,
    KafkaErrorName.INVALID_TIMESTAMP: 32,
    KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE: 76,
    KafkaErrorName.INVALID_RECORD: 87,
}
RULES = ProduceRules(max_message_bytes=1_048_588)

# Where we answer otherwise: our code, and why.
OTHERWISE = {
    "two wrappers": (0, "brokers up to 0.10 took them, and so do we"),
    "a message beside a wrapper": (0, "as two wrappers"),
    "a wrapper's offset -1": (0, "offsets of a producer mean nothing"),
    "no bytes": (87, "an EmptyMessageSetError: the caller may answer NONE and offset -1"),
    "a cut-off message": (87, "Kafka says NONE to a record that it does not keep"),
    "zstd": (76, "the error that says what is wrong"),
    "codec 5": (76, "Kafka's is UNKNOWN_SERVER_ERROR"),
    "garbage under gzip": (87, "Kafka's is UNKNOWN_SERVER_ERROR"),
    "a key beyond the message": (87, "Kafka's is UNKNOWN_SERVER_ERROR"),
    "LogAppendTime": (32, "refused in every version and on every topic"),
    "bytes behind the value": (87, "only well-formed records enter (S11)"),
    "a batch of magic 2": (2, "no message set: the caller gives it to validate_produced"),
}


def _code(name: str) -> int:
    try:
        batch = to_batch(CASES[name], max_bytes=1 << 22, requires_key=is_compacted(name), magic=1)
        validate_produced(batch, RULES, now_ms=0)
    except RecordsError as error:
        return CODES[error.kafka_error]
    return NONE


@pytest.mark.parametrize("name", CASES)
def test_the_answer(name: str) -> None:
    """Kafka's code at Produce v0, v1 and v2, unless OTHERWISE explains a difference."""
    kafka = GOLDEN[name]
    assert len(set(kafka)) == 1, "Kafka looks at the version"
    expected, _ = OTHERWISE.get(name, (kafka[0], ""))
    assert _code(name) == expected
    assert (expected != kafka[0]) == (name in OTHERWISE)
