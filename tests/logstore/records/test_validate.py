"""Tests what a producer may send (S11), and the errors for everything else."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records import kernel
from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.compression import compress
from lacuna.logstore.records.errors import InvalidRecordError, KafkaErrorName, RecordsError
from lacuna.logstore.records.layout import (
    HEADER_SIZE,
    BatchSummary,
    Codec,
    TimestampType,
)
from lacuna.logstore.records.legacy.lz4_header import xxh32_short
from lacuna.logstore.records.packing import with_crc
from lacuna.logstore.records.validate import (
    ProduceRules,
    validate_produced,
    with_max_timestamp,
)

RULES = ProduceRules(max_message_bytes=2000)
NOW = 1300
RECORDS = (
    NewRecord(offset_delta=0, timestamp=1000, key=b"a", value=b"one"),
    NewRecord(offset_delta=1, timestamp=1500, key=b"b", value=None, headers=((b"h", b"x"),)),
    NewRecord(offset_delta=2, timestamp=1500, key=b"a", value=b"three"),
)
BATCH = BatchToWrite(
    records=RECORDS, producer_id=4, producer_epoch=2, base_sequence=2**31 - 2, is_transactional=True
)
PLAIN = BatchToWrite(records=RECORDS)
SUMMARIZE = kernel.summarize


def sent(**changes: object) -> bytes:
    """Return BATCH with changed fields, as a producer would encode it."""
    return dataclasses.replace(BATCH, **changes).encode()  # type: ignore[arg-type]


def forged(batch: BatchToWrite = BATCH, **fields: int) -> bytes:
    """Return a batch with a correct checksum and a header that no producer would send."""
    data = batch.encode()
    header = BatchHeader.parse(data)._replace(**fields)
    return with_crc(bytearray(header.pack() + data[HEADER_SIZE:]))


def with_section(section: bytes, codec: Codec = Codec.NONE, count: int = 1) -> bytes:
    """Return a batch of `count` records that contains `section` as is."""
    header = BatchHeader.parse(PLAIN.encode())
    header = header._replace(
        attributes=int(codec),
        batch_length=49 + len(section),
        record_count=count,
        last_offset_delta=count - 1,
    )
    return with_crc(bytearray(header.pack() + section))


def lz4_with_dictionary_id(section: bytes) -> bytes:
    """Return a frame with an unused dictionary id: flags, block size, id and checksum."""
    frame = compress(Codec.LZ4, section)
    descriptor = bytes((frame[4] | 0x01, frame[5], 1, 2, 3, 4))
    return b"".join(
        (frame[:4], descriptor, bytes((xxh32_short(descriptor) >> 8 & 0xFF,)), frame[7:])
    )


def flipped(position: int) -> bytes:
    data = bytearray(sent())
    data[position] ^= 1
    return bytes(data)


@pytest.mark.parametrize("codec", Codec)
def test_s11_the_summary_says_what_a_commit_needs(codec: Codec) -> None:
    data = sent(codec=codec, max_timestamp=77)
    summary = validate_produced(data, RULES, NOW)
    assert summary == BatchSummary(
        record_count=3,
        max_timestamp=1500,
        declared_max_timestamp=77,
        producer_id=4,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        codec=codec,
        is_transactional=True,
    )


def test_s11_a_plain_batch_has_no_producer() -> None:
    summary = validate_produced(memoryview(PLAIN.encode()), RULES, NOW)
    assert (summary.producer_id, summary.is_transactional) == (-1, False)


ONE_RECORD = bytes.fromhex("0e 00 00 00 02 61 01 00")
# More than one LZ4 block.
LONG_RECORD = BatchToWrite(records=(NewRecord(offset_delta=0, value=bytes(100_000)),)).encode()[
    HEADER_SIZE:
]
CORRUPT = KafkaErrorName.CORRUPT_MESSAGE
INVALID = KafkaErrorName.INVALID_RECORD
LARGE = KafkaErrorName.MESSAGE_TOO_LARGE
TIME = KafkaErrorName.INVALID_TIMESTAMP
CODEC = KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE

REFUSED: dict[str, tuple[Callable[[], bytes], KafkaErrorName, str]] = {
    "nothing": (lambda: b"", INVALID, "exactly one batch"),
    "a few bytes": (lambda: sent()[:16], INVALID, "exactly one batch"),
    "a cut-off batch": (lambda: sent()[:-1], INVALID, "cut off"),
    "two batches": (lambda: sent() * 2, INVALID, "follow"),
    "a stray byte": (lambda: sent() + b"\x00", INVALID, "1 bytes follow"),
    "magic 0": (lambda: forged(magic=0), INVALID, "magic 2, not 0"),
    "magic 1": (lambda: forged(magic=1)[:20], INVALID, "magic 2, not 1"),
    "magic 3": (lambda: forged(magic=3), CORRUPT, "magic is 3"),
    "an impossible length": (lambda: forged(batch_length=48), CORRUPT, "batch_length"),
    "a flipped record bit": (lambda: flipped(-1), CORRUPT, "CRC-32C"),
    "a flipped checksum bit": (lambda: flipped(17), CORRUPT, "CRC-32C"),
    "codec 5": (lambda: forged(attributes=5), CODEC, "does not exist"),
    "LogAppendTime": (
        lambda: sent(timestamp_type=TimestampType.LOG_APPEND_TIME),
        TIME,
        "LogAppendTime",
    ),
    "a base offset": (lambda: sent(base_offset=1), INVALID, "base_offset is 1"),
    "no records": (lambda: forged(record_count=0), INVALID, "0 records"),
    "a negative count": (
        lambda: forged(record_count=-1, last_offset_delta=-2),
        INVALID,
        "-1 records",
    ),
    "a count too small": (
        lambda: forged(record_count=2),
        INVALID,
        "last_offset_delta 2 does not fit 2 records",
    ),
    "a delta too large": (lambda: forged(last_offset_delta=3), INVALID, "3 records"),
    "both too small": (
        lambda: forged(record_count=2, last_offset_delta=1),
        INVALID,
        "follow the last",
    ),
    "both too large": (lambda: forged(record_count=4, last_offset_delta=3), INVALID, "end inside"),
    "a control batch": (lambda: sent(is_control=True), INVALID, "control"),
    "a transaction of nobody": (
        lambda: forged(PLAIN, attributes=0x10),
        INVALID,
        "needs a producer id",
    ),
    "a negative producer id": (lambda: sent(producer_id=-2), INVALID, "producer id -2"),
    "no epoch": (lambda: sent(producer_epoch=-1), INVALID, "epoch -1"),
    "no sequence": (lambda: sent(base_sequence=-1), INVALID, "sequence -1"),
    "holes": (
        lambda: forged(BatchToWrite(records=(RECORDS[0], RECORDS[2])), last_offset_delta=1),
        INVALID,
        "record 1: its offset delta",
    ),
    "deltas from 1": (
        lambda: forged(BatchToWrite(records=(RECORDS[1],)), record_count=1, last_offset_delta=0),
        INVALID,
        "record 0: its offset delta",
    ),
    "an undecodable section": (lambda: with_section(b"\x00" * 40, Codec.ZSTD), INVALID, "zstd"),
    "an uncompressed section": (lambda: with_section(ONE_RECORD, Codec.GZIP), INVALID, "gzip"),
    "records behind the last": (lambda: with_section(ONE_RECORD * 2), INVALID, "follow the last"),
    "compressed records behind the last": (
        lambda: with_section(compress(Codec.LZ4, ONE_RECORD * 2), Codec.LZ4),
        INVALID,
        "follow the last",
    ),
    "lz4 with linked blocks": (
        lambda: with_section(lz4.frame.compress(LONG_RECORD, block_linked=True), Codec.LZ4),
        INVALID,
        "compress with independent blocks",
    ),
    "lz4 with a dictionary": (
        lambda: with_section(lz4_with_dictionary_id(ONE_RECORD), Codec.LZ4),
        INVALID,
        "or a dictionary",
    ),
    "a timestamp exceeds 64 bits": (
        lambda: forged(base_timestamp=2**63 - 1),
        INVALID,
        "exceeds 64 bits",
    ),
}


def test_s11_lz4_frames_that_java_reads() -> None:
    """A frame may have checksums, its size, or larger blocks."""
    section = lz4.frame.compress(
        LONG_RECORD,
        block_linked=False,
        block_size=lz4.frame.BLOCKSIZE_MAX4MB,
        block_checksum=True,
        content_checksum=True,
        store_size=True,
    )
    assert validate_produced(with_section(section, Codec.LZ4), RULES, NOW).codec is Codec.LZ4


@pytest.mark.parametrize("name", REFUSED)
def test_s11_refused(name: str) -> None:
    make, kafka_error, message = REFUSED[name]
    with pytest.raises(RecordsError, match=message) as caught:
        validate_produced(make(), RULES, NOW)
    assert caught.value.kafka_error is kafka_error


def refusal(data: bytes, rules: ProduceRules) -> KafkaErrorName | None:
    try:
        validate_produced(data, rules, NOW)
    except RecordsError as error:
        return error.kafka_error
    return None


def test_s11_max_message_bytes_counts_the_whole_batch() -> None:
    """Seed 003_: the limit applies to the message set, compressed or not."""
    data = sent(codec=Codec.LZ4)
    assert refusal(data, ProduceRules(max_message_bytes=len(data))) is None
    assert refusal(data, ProduceRules(max_message_bytes=len(data) - 1)) is LARGE


def test_s11_a_compressed_record_has_a_largest_size() -> None:
    """max.decompressed.message.bytes excludes a record's length field, and applies only to compressed batches."""
    value = bytes(200)
    record = dataclasses.replace(RECORDS[0], key=None, value=value, headers=())
    size = 7 + len(value)  # attributes, two deltas, no key, two bytes of length, no headers
    others = [dataclasses.replace(record, offset_delta=delta, value=b"") for delta in range(1, 4)]
    for records in ((record,), (record, *others)):
        data = sent(records=records, codec=Codec.LZ4)
        for most, expected in ((size, None), (size - 1, INVALID)):
            rules = dataclasses.replace(RULES, max_record_bytes=most)
            assert refusal(data, rules) is expected
        assert refusal(sent(records=records), rules) is None


def test_s11_a_bomb_is_too_large() -> None:
    bomb = with_section(compress(Codec.ZSTD, bytes(10**6)), Codec.ZSTD)
    rules = ProduceRules(max_message_bytes=10**6, max_decompressed_bytes=10**5)
    assert refusal(bomb, rules) is LARGE


def test_s11_a_key_on_compacted_topics() -> None:
    keyless = sent(records=(*RECORDS[:2], dataclasses.replace(RECORDS[2], key=None)))
    strict = dataclasses.replace(RULES, require_keys=True)
    assert refusal(sent(), strict) is None
    assert refusal(keyless, RULES) is None
    with pytest.raises(RecordsError, match="record 2: a compacted topic needs a key"):
        validate_produced(keyless, strict, NOW)


KEYLESS = "a compacted topic needs a key in every record"


def refused_records(data: bytes, rules: ProduceRules) -> tuple[InvalidRecordError, list[int]]:
    """Return the error and the records that it names."""
    with pytest.raises(InvalidRecordError) as caught:
        validate_produced(data, rules, NOW)
    return caught.value, [index for index, _ in caught.value.faults]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_s11_every_record_without_a_key_is_named(codec: Codec) -> None:
    records = tuple(NewRecord(offset_delta=i, timestamp=NOW, key=b"k" * (i % 2)) for i in range(6))
    records = tuple(dataclasses.replace(each, key=each.key or None) for each in records)
    strict = dataclasses.replace(RULES, require_keys=True)
    error, named = refused_records(sent(records=records, codec=codec), strict)
    assert named == [0, 2, 4]
    assert {reason for _, reason in error.faults} == {KEYLESS}
    assert error.kafka_error is INVALID
    assert str(error) == f"record 0: {KEYLESS}; 2 more records are invalid"


def test_s11_one_time_out_of_range_makes_it_an_invalid_timestamp() -> None:
    """As in Kafka, each record gets its own error, and the batch gets INVALID_TIMESTAMP."""
    records = (
        NewRecord(offset_delta=0, timestamp=NOW),
        NewRecord(offset_delta=1, timestamp=NOW + 11, key=b"k"),
        NewRecord(offset_delta=2, timestamp=NOW + 10, key=b"k"),
        NewRecord(offset_delta=3, timestamp=NOW - 21, key=b"k"),
        NewRecord(offset_delta=4, timestamp=NOW + 11),
    )
    rules = dataclasses.replace(RULES, require_keys=True, max_before_ms=20, max_after_ms=10)
    error, named = refused_records(sent(records=records), rules)
    assert named == [0, 1, 3, 4]
    assert error.kafka_error is TIME
    assert error.record_index == 1
    late = f"timestamp {NOW + 11} is after {NOW + 10}, the latest that the topic accepts now"
    early = f"timestamp {NOW - 21} is before {NOW - 20}, the earliest that the topic accepts now"
    assert [reason for _, reason in error.faults] == [KEYLESS, late, early, KEYLESS]
    assert late in str(error)


def test_s11_times_alone_are_all_named() -> None:
    rules = dataclasses.replace(RULES, max_after_ms=1499 - NOW)
    _, named = refused_records(sent(), rules)
    assert named == [1, 2]


def test_s11_a_record_that_cannot_be_read_is_the_one_that_is_named() -> None:
    """Later records are unknown, and errors in earlier ones no longer matter."""
    section = bytes.fromhex("0c 00 00 00 01 01 00") + bytes.fromhex("0c 00 00 02 01 01 02")
    strict = dataclasses.replace(RULES, require_keys=True)
    error, named = refused_records(with_section(section, count=2), strict)
    assert named == [1]
    assert error.kafka_error is INVALID


def test_s11_an_empty_key_is_a_key() -> None:
    empty = sent(records=(dataclasses.replace(RECORDS[0], key=b""),))
    assert refusal(empty, dataclasses.replace(RULES, require_keys=True)) is None


def test_s11_zstd_needs_produce_v7() -> None:
    rules = dataclasses.replace(RULES, zstd_allowed=False)
    assert refusal(sent(codec=Codec.ZSTD), rules) is CODEC
    assert refusal(sent(codec=Codec.LZ4), rules) is None


@pytest.mark.parametrize(
    ("before", "after", "kafka_error"),
    [
        (None, None, None),
        (NOW - 1000, 1500 - NOW, None),
        (NOW - 1001, None, TIME),
        (None, 1499 - NOW, TIME),
    ],
)
def test_s11_timestamps_in_the_topics_range(
    before: int | None, after: int | None, kafka_error: KafkaErrorName | None
) -> None:
    rules = dataclasses.replace(RULES, max_before_ms=before, max_after_ms=after)
    assert refusal(sent(), rules) is kafka_error


def test_s11_records_without_timestamps_have_no_range() -> None:
    data = BatchToWrite(records=(NewRecord(offset_delta=0),)).encode()
    summary = validate_produced(data, dataclasses.replace(RULES, max_before_ms=10), NOW)
    assert summary.max_timestamp == -1


def test_s11_log_append_time_is_stored_under_a_right_checksum() -> None:
    stamped = with_max_timestamp(sent(codec=Codec.SNAPPY), TimestampType.LOG_APPEND_TIME, 9999)
    (batch,) = read_batches(stamped)
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.header.max_timestamp == 9999
    assert batch.header.codec is Codec.SNAPPY
    assert batch.header.is_transactional
    assert {record.timestamp for record in batch.records()} == {9999}
    assert stamped[HEADER_SIZE:] == sent(codec=Codec.SNAPPY)[HEADER_SIZE:]


def test_create_time_corrects_a_false_max_timestamp() -> None:
    corrected = with_max_timestamp(sent(max_timestamp=5), TimestampType.CREATE_TIME, 1500)
    assert corrected == sent()


@pytest.mark.parametrize("max_timestamp", [-1, 0, 2**63 - 1])
def test_any_append_time_fits(max_timestamp: int) -> None:
    stamped = with_max_timestamp(sent(), TimestampType.LOG_APPEND_TIME, max_timestamp)
    assert struct.unpack_from(">q", stamped, 35) == (max_timestamp,)


@given(
    changes=st.dictionaries(st.integers(0, len(sent()) - 1), st.integers(0, 255), max_size=3),
    is_checksum_right=st.booleans(),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    rules=st.sampled_from(
        [
            RULES,
            dataclasses.replace(RULES, require_keys=True),
            dataclasses.replace(RULES, max_before_ms=NOW - 1200),
            dataclasses.replace(RULES, max_message_bytes=100),
        ]
    ),
)
def test_the_short_way_takes_what_the_long_way_takes(
    changes: dict[int, int], is_checksum_right: bool, codec: Codec, rules: ProduceRules
) -> None:
    """Both return the same result. Compressed or invalid batches take the slow path."""
    data = bytearray(sent(codec=codec))
    for at, byte in changes.items():
        data[at] = byte
    produced = with_crc(data) if is_checksum_right else bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        seen: list[BatchSummary | None] = []

        def refuse(*asked: Any) -> None:
            seen.append(SUMMARIZE(*asked))

        patch.setattr(kernel, "summarize", refuse)
        try:
            summary = validate_produced(produced, rules, NOW)
        except RecordsError:
            assert seen == [None]
        else:
            assert seen == [summary if summary.codec is Codec.NONE else None]


def test_every_flipped_byte_is_refused_or_uncovered() -> None:
    """Only partition_leader_epoch is neither checked nor covered by the checksum."""
    accepted = {i for i in range(len(sent())) if refusal(flipped(i), RULES) is None}
    assert accepted == set(range(12, 16))
