"""Tests which batches from a source arrive in a copy, and as which bytes."""

from collections.abc import Sequence

import pytest

from lacuna.importing.batches import Arrived, UncopyableError, arrive
from lacuna.importing.verifying import CompactedComparison
from lacuna.logstore.records.batch import (
    BatchToWrite,
    NewRecord,
    Record,
    RecordBatch,
    read_batches,
)
from lacuna.logstore.records.control import ControlType, EndTxnMarker
from lacuna.logstore.records.layout import Codec, TimestampType

P, Q = 7, 0  # Kafka may have assigned producer id 0


def batch(
    base_offset: int,
    count: int = 1,
    *,
    producer_id: int = -1,
    is_transactional: bool = False,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return a batch as a source would contain it."""
    records = tuple(
        NewRecord(
            offset_delta=index,
            timestamp=1_000 + index,
            key=b"k",
            value=b"v" * 40,
            headers=((b"h", None),),
        )
        for index in range(count)
    )
    return BatchToWrite(
        records=records,
        base_offset=base_offset,
        codec=codec,
        timestamp_type=timestamp_type,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=3 if producer_id >= 0 else -1,
        base_sequence=11 if producer_id >= 0 else -1,
        partition_leader_epoch=base_offset // 10,
    ).encode()


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytes:
    end = EndTxnMarker(control_type, 0)
    return BatchToWrite(
        records=(NewRecord(offset_delta=0, key=end.key(), value=end.value()),),
        base_offset=offset,
        is_transactional=True,
        is_control=True,
        producer_id=producer_id,
        producer_epoch=3,
        partition_leader_epoch=offset // 10,
    ).encode()


def read(arrived: Arrived) -> list[RecordBatch]:
    """Return the copied batches, whose checksums must be correct."""
    return [each for copy in arrived.copies for each in read_batches(copy.data)]


def offsets(arrived: Arrived) -> list[int]:
    return [record.offset for each in read(arrived) for record in each.records()]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("timestamp_type", list(TimestampType))
def test_a_batch_loses_its_producer_and_nothing_else(
    codec: Codec, timestamp_type: TimestampType
) -> None:
    given = batch(20, 3, producer_id=P, codec=codec, timestamp_type=timestamp_type)
    arrived = arrive(given, (), 0)
    (copy,) = read(arrived)
    (before,) = read_batches(given)
    assert copy.records() == before.records()
    assert copy.data[61:] == before.data[61:], "the compressed section is the source's"
    header = copy.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert not header.is_transactional
    assert (header.codec, header.timestamp_type) == (codec, timestamp_type)
    assert (arrived.end_offset, arrived.leader_epoch) == (23, 2)


def test_a_plain_batch_keeps_all_its_bytes() -> None:
    given = batch(5, 2)
    (copy,) = arrive(given, (), 0).copies
    assert bytes(copy.data) == given
    assert (copy.base_offset, copy.next_offset, copy.max_timestamp) == (5, 7, 1_001)


@pytest.mark.parametrize("is_listed_in_order", [True, False])
def test_what_is_aborted_and_what_marks_an_end_is_a_hole(is_listed_in_order: bool) -> None:
    log = b"".join(
        (
            batch(0, 2, producer_id=P, is_transactional=True),  # aborted
            batch(2, 1, producer_id=Q, is_transactional=True),  # committed
            batch(3, 1),
            batch(4, 1, producer_id=P),  # idempotent, from the same producer
            marker(5, P, ControlType.ABORT),
            marker(6, Q, ControlType.COMMIT),
            batch(7, 1, producer_id=P, is_transactional=True),  # committed
            batch(8, 1, producer_id=Q, is_transactional=True),  # aborted
            marker(9, Q, ControlType.ABORT),
            marker(10, P, ControlType.COMMIT),
        )
    )
    aborted: Sequence[tuple[int, int]] = [(P, 0), (Q, 8)]
    arrived = arrive(log, aborted if is_listed_in_order else aborted[::-1], 0)
    assert offsets(arrived) == [2, 3, 4, 7]
    assert arrived.end_offset == 11
    kept = arrive(log, aborted, 0, keeps_aborted=True)
    assert offsets(kept) == [0, 1, 2, 3, 4, 7, 8], "markers are holes nevertheless"
    assert [each.base_offset for each in kept.copies if each.is_aborted] == [0, 8]


def test_a_batch_without_records_is_a_hole() -> None:
    emptied = BatchToWrite(
        records=(), base_offset=3, last_offset_delta=6, producer_id=P, base_sequence=0
    ).encode()
    arrived = arrive(batch(0, 1) + emptied, (), 0)
    assert offsets(arrived) == [0]
    assert arrived.end_offset == 10


def test_a_batch_that_is_cut_off_is_left_to_the_next_fetch() -> None:
    log = batch(0, 2) + batch(2, 2)
    whole = len(batch(0, 2))
    for size in range(len(log)):
        arrived = arrive(log[:size], (), 0)
        assert arrived.end_offset == (2 if size >= whole else 0)


def test_what_is_here_already_is_not_copied_again() -> None:
    log = batch(0, 3, codec=Codec.LZ4) + batch(3, 4, producer_id=P, codec=Codec.LZ4) + batch(7, 1)
    for end_offset in range(8):
        arrived = arrive(log, (), end_offset)
        assert offsets(arrived) == list(range(end_offset, 8))
        assert all(copy.base_offset >= end_offset for copy in arrived.copies)
        assert arrived.end_offset == 8


def test_a_damaged_batch_is_not_copied() -> None:
    log = bytearray(batch(0, 1) + batch(1, 1))
    log[-1] ^= 1
    with pytest.raises(UncopyableError, match="damaged") as raised:
        arrive(log, (), 0)
    assert raised.value.offset == 1


def record(offset: int, key: bytes, value: bytes | None) -> Record:
    return Record(offset, 1_000, key, value, (), 0)


A0, B1, A2, B3 = (
    record(0, b"a", b"0"),
    record(1, b"b", b"1"),
    record(2, b"a", b"2"),
    record(3, b"b", b"3"),
)


@pytest.mark.parametrize(
    ("there", "here", "difference"),
    [
        ([[A0, B1], [A2, B3]], [[A0, B1], [A2, B3]], ""),
        ([[A0, B1], [A2, B3]], [[], [A2, B3]], ""),
        ([[B1], [A2, B3]], [[A0], [A2, B3]], ""),
        (
            [[A0, B1], [A2]],
            [[], [A2]],
            "offset 1 is not in the copy, nor is a later record with its key",
        ),
        (
            [[A0], []],
            [[A0, B1], []],
            "offset 1 is not in the source, nor is a later record with its key",
        ),
        ([[A0], [record(2, b"a", None)]], [[], []], ""),
        ([[record(1, b"b", None)]], [[]], ""),
        (
            [[A0]],
            [[record(0, b"a", b"x")]],
            "offset 0 has the value b'0' in the source and b'x' in the copy",
        ),
    ],
)
def test_a_compacted_topic_may_lack_what_is_superseded_there(
    there: list[list[Record]], here: list[list[Record]], difference: str
) -> None:
    comparison = CompactedComparison()
    for left, right in zip(there, here, strict=True):
        comparison.add(left, right)
    assert comparison.end() == difference


def test_an_old_message_format_is_named() -> None:
    old = bytearray(batch(9, 1))
    old[16] = 1
    with pytest.raises(UncopyableError, match="message format 1") as raised:
        arrive(old, (), 0)
    assert raised.value.offset == 9
