"""Tests message sets against kafka-clients 0.9 to 0.11, and their errors against Kafka 3.9 (S22-S24)."""

from __future__ import annotations

import itertools
import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from lacuna.logstore.records.batch import BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.errors import InvalidTimestampError, KafkaErrorName, RecordsError
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy import from_batches, to_batch
from lacuna.logstore.records.legacy.lz4_header import with_old_checksum, with_right_checksum
from lacuna.logstore.records.legacy.reading import Entry, read_entries, read_messages, unwrap
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.golden import old_clients
from tests.golden.legacy_cases import ANSWERS, CASES, is_compacted
from tests.golden.old_clients import HERE, VERSIONS, Row, rows

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads((HERE / "sets.json").read_text())
SETS = GOLDEN["sets"]
CONVERSIONS = GOLDEN["conversions"]
BOUND = 1 << 20


def _name(case: dict[str, Any]) -> str:
    first = case["read"].split(":")[0]
    who = case.get("client", "conversion")
    return f"{who}-{case['magic']}-{case['codec']}-{case['timestamp_type']}-{first}"


def _read(message_set: bytes) -> list[Row]:
    messages = read_messages(message_set, max_bytes=BOUND)
    return [(m.offset, m.timestamp, m.key, m.value) for m in messages]


def _shape(message_set: bytes) -> list[tuple[int, int, int, int, bytes]]:
    """Return each entry with its content, except for what depends on the compressor."""
    return [
        (e.offset, e.magic, e.attributes, e.timestamp, _content(e))
        for e in read_entries(message_set)
    ]


def _content(entry: Entry) -> bytes:
    if entry.codec is Codec.NONE:
        return bytes(entry.data)
    return unwrap(entry, BOUND, BOUND)


def test_reads_what_the_old_client_reads() -> None:
    """S22: offsets, timestamps, keys and values are as the client that wrote the set decodes them."""
    for case in SETS:
        assert _read(bytes.fromhex(case["bytes"])) == rows(case["read"]), _name(case)


def test_writes_what_the_old_client_writes() -> None:
    """S22: wrapper, inner offsets, attributes and timestamps match to the byte, except for the compression."""
    for case in SETS:
        if case["client"] != "0.9.0.1":
            _check_written(case)


def _check_written(case: dict[str, Any]) -> None:
    append_time = case["timestamp_type"] == "LogAppendTime"
    messages = [NewMessage(*row) for row in rows(case["written"])]
    written = write_message_set(
        messages,
        magic=case["magic"],
        codec=Codec[case["codec"].upper()],
        timestamp_type=TimestampType(int(append_time)),
        append_time=case["append_time"],
    )
    golden = bytes.fromhex(case["bytes"])
    assert _shape(written) == _shape(golden), _name(case)
    if case["codec"] == "none":
        assert written == golden


def test_lz4_header_checksums() -> None:
    """KAFKA-3160: magic 0 has the wrong checksum and magic 1 the correct one, as in the old clients."""
    for case in (each for each in SETS if each["codec"] == "lz4"):
        (wrapper,) = read_entries(bytes.fromhex(case["bytes"]))
        _, value = wrapper.key_and_value()
        assert value is not None
        frame = bytes(value)
        expected = (with_old_checksum if case["magic"] == 0 else with_right_checksum)(frame)
        assert frame == expected, _name(case)
        assert with_old_checksum(frame) != with_right_checksum(frame)


def test_becomes_a_batch() -> None:
    """S24: the result is one magic 2 batch with the same records, or INVALID_TIMESTAMP for LogAppendTime."""
    for case in SETS:
        _check_converted(case)


def _check_converted(case: dict[str, Any]) -> None:
    if case["timestamp_type"] == "LogAppendTime":
        with pytest.raises(InvalidTimestampError):
            to_batch(bytes.fromhex(case["bytes"]), max_bytes=BOUND)
        return
    batch_bytes = to_batch(bytes.fromhex(case["bytes"]), max_bytes=BOUND)
    (batch,) = read_batches(batch_bytes)
    assert batch.header.codec is Codec[case["codec"].upper()]
    got = [(r.offset, r.timestamp, r.key, r.value) for r in batch.records()]
    expected = rows(case["read"])
    assert got == [(index, *row[1:]) for index, row in enumerate(expected)], _name(case)


def test_converts_as_a_broker_did() -> None:
    """S24: the set that Kafka 0.11 converts a batch to for Fetch v0 to v3, entry by entry."""
    for case in CONVERSIONS:
        converted = from_batches(
            [bytes.fromhex(case["batch"])], magic=case["magic"], first_offset=case["first_offset"]
        )
        assert _read(converted) == rows(case["read"]), _name(case)
        if case["magic"] == 1 or case["timestamp_type"] == "CreateTime":
            assert _shape(converted) == _shape(bytes.fromhex(case["bytes"])), _name(case)


def test_the_capture_holds_what_it_is_for() -> None:
    """It contains every client, magic and codec, both timestamp types, and holes in wrappers."""
    assert {s["client"] for s in SETS} == set(VERSIONS)
    codecs = ("none", "gzip", "snappy", "lz4")
    assert {(s["magic"], s["codec"]) for s in SETS} == {(m, c) for m in (0, 1) for c in codecs}
    assert {s["timestamp_type"] for s in SETS} == {"CreateTime", "LogAppendTime"}
    offsets = [row[0] for row in rows(SETS[-1]["read"])]
    assert offsets == [1000, 1001, 1005, 1006]


KAFKA_ANSWERS: dict[str, list[int]] = json.loads(ANSWERS.read_text())
NONE = 0
CODES = {
    KafkaErrorName.CORRUPT_MESSAGE: 2,
    KafkaErrorName.MESSAGE_TOO_LARGE: 10,
    KafkaErrorName.INVALID_TIMESTAMP: 32,
    KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE: 76,
    KafkaErrorName.INVALID_RECORD: 87,
}
RULES = ProduceRules(max_message_bytes=1_048_588)

# Where our answer differs: our code, and why.
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
        batch = to_batch(CASES[name], max_bytes=1 << 22)
        validate_produced(batch, replace(RULES, require_keys=is_compacted(name)), now_ms=0)
    except RecordsError as error:
        return CODES[error.kafka_error]
    return NONE


@pytest.mark.parametrize("name", CASES)
def test_the_answer(name: str) -> None:
    """Kafka's error code for Produce v0, v1 and v2, unless OTHERWISE explains a difference."""
    kafka = KAFKA_ANSWERS[name]
    assert len(set(kafka)) == 1, "Kafka looks at the version"
    expected, _ = OTHERWISE.get(name, (kafka[0], ""))
    assert _code(name) == expected
    assert (expected != kafka[0]) == (name in OTHERWISE)


TIME = 1_480_000_000_000
# Key and value by offset delta.
PAYLOADS: dict[int, tuple[bytes | None, bytes | None]] = {
    0: (b"k", b"v"),
    1: (None, b"x" * 3000),
    4: (b"gone", None),
    5: (b"", b""),
    9: (b"z", b"y" * 70_000),
}


def _batch(base_offset: int, codec: Codec, timestamp_type: TimestampType) -> bytes:
    """Return five records with a hole, null and empty keys and values, and headers that must be dropped."""
    records = tuple(
        NewRecord(offset_delta=d, timestamp=TIME - d, key=k, value=v, headers=((b"h", b"1"),))
        for d, (k, v) in PAYLOADS.items()
    )
    return BatchToWrite(
        records=records,
        base_offset=base_offset,
        codec=codec,
        timestamp_type=timestamp_type,
        max_timestamp=TIME + 9,
    ).encode()


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder with the clients' jars and classes."""
    return tmp_path_factory.mktemp("old_clients")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", old_clients.VERSIONS)
def test_reads_converted_batches(version: str, jars: pathlib.Path) -> None:
    """S24: every codec (zstd as gzip) and timestamp type. The client checks the CRC-32s."""
    magic = 0 if version == "0.9.0.1" else 1
    magics = (0,) if magic == 0 else (0, 1)
    cases = list(itertools.product(magics, Codec, TimestampType))
    sets = [
        from_batches(
            [_batch(0, codec, kind), _batch(2**33, codec, kind)], magic=magic, first_offset=0
        )
        for magic, codec, kind in cases
    ]
    answers = old_clients.answers(jars, version, [f"read {data.hex()}" for data in sets])
    for (magic, codec, kind), answer in zip(cases, answers, strict=True):
        got = old_clients.rows(answer)
        assert got == _expected(magic, kind), (magic, codec, kind)


def _expected(magic: int, kind: TimestampType) -> list[old_clients.Row]:
    expected: list[old_clients.Row] = []
    for base, (delta, (key, value)) in itertools.product((0, 2**33), PAYLOADS.items()):
        time = TIME + 9 if kind is TimestampType.LOG_APPEND_TIME else TIME - delta
        expected.append((base + delta, time if magic else -1, key, value))
    return expected
