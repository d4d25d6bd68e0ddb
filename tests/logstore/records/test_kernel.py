"""Tests the kernel's loops in both forms: walking, patching, validating and reading records."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches, varint
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    RecordsError,
    TruncatedBatchError,
)
from lacuna.logstore.records.layout import (
    HEADER_SIZE,
    Codec,
    RecordTimes,
    TimestampType,
    WalkedBatches,
)
from lacuna.logstore.records.packing import with_crc


def produced(count: int, *, max_timestamp: int = 7, size: int = 3) -> bytes:
    """Return a batch as a producer sends it: with base offset 0 and no leader epoch."""
    records = tuple(
        NewRecord(offset_delta=delta, timestamp=5, value=b"v" * size) for delta in range(count)
    )
    return BatchToWrite(records=records, max_timestamp=max_timestamp).encode()


def stored(base_offset: int, last_offset_delta: int = 0) -> bytes:
    return BatchToWrite(
        records=(NewRecord(offset_delta=0),),
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
    ).encode()


def columns(walked: WalkedBatches) -> tuple[list[int], list[int], list[int], list[int]]:
    return (
        list(walked.positions),
        list(walked.base_offsets),
        list(walked.last_offsets),
        list(walked.max_timestamps),
    )


def test_forms_are_what_they_say(kernel: ModuleType, request: pytest.FixtureRequest) -> None:
    compiled = "compiled" in request.node.name
    assert str(kernel.__file__).endswith(".py") is not compiled


def test_s20_walk_patches_offsets_and_leader_epoch_only(kernel: ModuleType) -> None:
    parts = [produced(3, max_timestamp=50), produced(1, max_timestamp=-1), produced(2)]
    buffer = bytearray(b"".join(parts))
    walked = kernel.walk_and_patch(buffer, 1000)
    ends = [len(b"".join(parts[:i])) for i in range(4)]
    assert columns(walked) == (ends, [1000, 1003, 1004], [1002, 1003, 1005], [50, -1, 7])
    assert len(walked) == 3
    for part, batch in zip(parts, read_batches(buffer), strict=True):
        assert batch.header.partition_leader_epoch == 0
        assert batch.data[16:] == part[16:]
        assert batch.data[8:12] == part[8:12]
    assert [b.header.base_offset for b in read_batches(buffer)] == [1000, 1003, 1004]


def test_walk_of_nothing(kernel: ModuleType) -> None:
    assert columns(kernel.walk_and_patch(bytearray(), 5)) == ([0], [], [], [])


def test_walk_of_a_slice_patches_the_buffer_behind_it(kernel: ModuleType) -> None:
    one = produced(1)
    buffer = bytearray(b"head" + one + b"tail")
    kernel.walk_and_patch(memoryview(buffer)[4:-4], 2**62)
    assert BatchHeader.parse(buffer, 4).base_offset == 2**62
    assert (bytes(buffer[:4]), bytes(buffer[-4:])) == (b"head", b"tail")


def test_walk_stored_keeps_offsets_and_holes(kernel: ModuleType) -> None:
    parts = [stored(10, 4), stored(15), stored(100, 2**31 - 1)]
    buffer = bytearray(b"".join(parts))
    walked = kernel.walk_stored(buffer, 10)
    assert list(walked.base_offsets) == [10, 15, 100]
    assert list(walked.last_offsets) == [14, 15, 100 + 2**31 - 1]
    assert [b.header.partition_leader_epoch for b in read_batches(buffer)] == [0, 0, 0]
    assert b"".join(bytes(p) for p in parts)[:12] == buffer[:12]


@pytest.mark.parametrize(
    ("offsets", "base_offset", "position"),
    [((10,), 11, 0), ((10, 10), 0, 68), ((10, 9), 0, 68)],
)
def test_walk_stored_refuses_offsets_that_do_not_increase(
    kernel: ModuleType, offsets: tuple[int, ...], base_offset: int, position: int
) -> None:
    buffer = bytearray(b"".join(stored(offset) for offset in offsets))
    with pytest.raises(CorruptBatchError, match="begins before") as caught:
        kernel.walk_stored(buffer, base_offset)
    assert caught.value.position == position


@pytest.mark.parametrize("walk", ["walk_and_patch", "walk_stored"])
def test_walk_finds_every_flipped_byte(kernel: ModuleType, walk: str) -> None:
    one = stored(0)
    second = stored(1)
    for at in range(8, len(second)):
        if 12 <= at < 16:
            continue
        buffer = bytearray(one + second)
        buffer[len(one) + at] ^= 0x80
        with pytest.raises((CorruptBatchError, TruncatedBatchError)) as caught:
            getattr(kernel, walk)(buffer, 0)
        error = caught.value
        assert isinstance(error, CorruptBatchError | TruncatedBatchError)
        assert error.position == len(one)


def test_walk_without_verification_leaves_the_checksum_alone(kernel: ModuleType) -> None:
    buffer = bytearray(produced(1))
    buffer[-1] ^= 1
    assert len(kernel.walk_and_patch(buffer, 0, False)) == 1
    with pytest.raises(CorruptBatchError, match="CRC-32C"):
        kernel.walk_and_patch(buffer, 0)


@pytest.mark.parametrize("delta", [-1, -(2**31)])
def test_walk_refuses_negative_deltas(kernel: ModuleType, delta: int) -> None:
    data = produced(1)
    header = BatchHeader.parse(data)._replace(last_offset_delta=delta)
    with pytest.raises(CorruptBatchError, match="last_offset_delta"):
        kernel.walk_and_patch(bytearray(header.pack() + data[HEADER_SIZE:]), 0, False)


def test_walk_refuses_offsets_beyond_64_bits(kernel: ModuleType) -> None:
    assert kernel.walk_and_patch(bytearray(produced(2)), 2**63 - 3).last_offsets[0] == 2**63 - 2
    with pytest.raises(CorruptBatchError, match="last_offset_delta"):
        kernel.walk_and_patch(bytearray(produced(2)), 2**63 - 2)


def test_walk_byte_at_a_time_is_truncated(kernel: ModuleType) -> None:
    data = produced(2)
    for end in range(len(data) + 1, 2 * len(data)):
        with pytest.raises(TruncatedBatchError) as caught:
            kernel.walk_and_patch(bytearray((data * 2)[:end]), 0)
        known = end - len(data) >= 12
        assert caught.value.position == len(data)
        assert caught.value.needed == (len(data) if known else HEADER_SIZE)


@pytest.mark.parametrize(("at", "value"), [(16, 1), (16, 3), (11, 48), (8, 0xFF)])
def test_walk_refuses_other_magics_and_lengths(kernel: ModuleType, at: int, value: int) -> None:
    buffer = bytearray(produced(1))
    if at == 11:
        buffer[8:12] = bytes(4)
    buffer[at] = value
    with pytest.raises(CorruptBatchError) as caught:
        kernel.walk_and_patch(buffer, 0)
    assert caught.value.position == 0


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), max_size=6),
    base_offset=st.integers(0, 2**62),
)
def test_walk_assigns_like_the_log(kernel: ModuleType, counts: list[int], base_offset: int) -> None:
    """S23: each offset is assigned in place, for any codec."""
    buffer = bytearray(b"".join(produced(count) for count in counts))
    walked = kernel.walk_and_patch(buffer, base_offset)
    headers = [batch.header for batch in read_batches(buffer)]
    assert list(walked.base_offsets) == [h.base_offset for h in headers]
    assert list(walked.last_offsets) == [h.last_offset for h in headers]
    expected = base_offset
    for header, count in zip(headers, counts, strict=True):
        assert header.base_offset == expected
        expected += count
    again = kernel.walk_stored(buffer, base_offset)
    assert columns(again) == columns(walked)


def record(body: str) -> bytes:
    """Return a record: `body` preceded by its size (hex: attributes, deltas, key, value, headers)."""
    data = bytes.fromhex(body)
    return varint(len(data)) + data


GOOD = record("00 00 00 01 01 00")
RECORD_ERRORS = {
    "no bytes": (b"", "end inside a varint"),
    "an unfinished size": (b"\x80", "end inside a varint"),
    "size 0": (b"\x00", "size of 0"),
    "a negative size": (b"\x01", "size of -1"),
    "a size beyond the end": (b"\x10\x00", "size of 8"),
    "a size of 5 bytes too large": (b"\xff\xff\xff\xff\x1f", "longer than 32"),
    "a size of 6 bytes": (b"\x80\x80\x80\x80\x80\x00", "longer than 32"),
    "only attributes": (record("00"), "end inside a varint"),
    "an endless timestamp": (record("00" + "ff" * 11), "longer than 64"),
    "a timestamp of 65 bits": (record("00" + "ff" * 9 + "02"), "longer than 64"),
    "no offset": (record("00 00"), "end inside a varint"),
    "no key": (record("00 00 00"), "end inside a varint"),
    "a key beyond the record": (record("00 00 00 08 61"), "4 bytes does not fit"),
    "a key length below -1": (record("00 00 00 03 01 00"), "a field has the invalid length -2"),
    "no value": (record("00 00 00 01"), "end inside a varint"),
    "a value beyond the record": (record("00 00 00 01 04 61"), "2 bytes does not fit"),
    "no header count": (record("00 00 00 01 01"), "end inside a varint"),
    "a negative header count": (record("00 00 00 01 01 01"), "-1 headers"),
    "too many headers": (record("00 00 00 01 01 04 00"), "2 headers"),
    "a null header key": (record("00 00 00 01 01 02 01 01"), "a field has the invalid length -1"),
    "no header value": (record("00 00 00 01 01 02 00"), "end inside a varint"),
    "bytes behind the headers": (record("00 00 00 01 01 00 00"), "1 bytes follow its headers"),
    "bytes behind the records": (GOOD + b"\x00", "1 bytes follow"),
}


@pytest.mark.parametrize("name", RECORD_ERRORS)
def test_s11_records_that_do_not_fit(kernel: ModuleType, name: str) -> None:
    section, message = RECORD_ERRORS[name]
    with pytest.raises(InvalidRecordError, match=message):
        kernel.validate_records(section, 1, 0, False)
    with pytest.raises(InvalidRecordError, match=message):
        kernel.read_records(section, 1)
    with pytest.raises(InvalidRecordError, match=message):
        kernel.find_faults(section, 1, 0, False, 0, 0)


def test_errors_name_the_record(kernel: ModuleType) -> None:
    second = record("00 00 02 01 01 00 00")
    calls: tuple[Callable[[], object], ...] = (
        lambda: kernel.validate_records(GOOD + second, 2, 0, False),
        lambda: kernel.read_records(GOOD + second, 2),
        lambda: kernel.find_faults(GOOD + second, 2, 0, False, 0, 0),
    )
    for call in calls:
        with pytest.raises(InvalidRecordError, match=r"^record 1: ") as caught:
            call()
        assert caught.value.record_index == 1


def test_records_byte_at_a_time(kernel: ModuleType) -> None:
    section = record("00 00 00 02 6b 02 76 04 02 68 01 02 68 02 78")
    assert kernel.validate_records(section, 1, 9, True) == RecordTimes(9, 9)
    for end in range(len(section)):
        with pytest.raises(InvalidRecordError):
            kernel.validate_records(section[:end], 1, 0, False)


def timed(*timestamps: int) -> bytes:
    """Return records with these timestamps, relative to a base of 0."""
    bodies = (
        b"\x00" + varint(time) + varint(i) + b"\x01\x01\x00" for i, time in enumerate(timestamps)
    )
    return b"".join(varint(len(body)) + body for body in bodies)


@pytest.mark.parametrize(
    ("timestamps", "times"),
    [
        ((), RecordTimes(-1, -1)),
        ((-1, -1), RecordTimes(-1, -1)),
        ((5, 9, 9, 5), RecordTimes(9, 5)),
        ((-1, 3), RecordTimes(3, 3)),
        ((2**63 - 1, -(2**63)), RecordTimes(2**63 - 1, -(2**63))),
    ],
)
def test_times(kernel: ModuleType, timestamps: tuple[int, ...], times: RecordTimes) -> None:
    assert kernel.validate_records(timed(*timestamps), len(timestamps), 0, False) == times


@pytest.mark.parametrize(("base", "delta"), [(1, 2**63 - 1), (-1, -(2**63)), (2**63 - 1, 1)])
def test_timestamps_beyond_64_bits(kernel: ModuleType, base: int, delta: int) -> None:
    with pytest.raises(InvalidRecordError, match="64 bits"):
        kernel.validate_records(timed(delta), 1, base, False)


def test_s11_offset_deltas_count_up_from_zero(kernel: ModuleType) -> None:
    with pytest.raises(InvalidRecordError, match="offset delta") as caught:
        kernel.validate_records(GOOD * 2, 2, 0, False)
    assert caught.value.record_index == 1


def test_s11_every_fault_is_found_and_a_record_has_one(kernel: ModuleType) -> None:
    bodies = (
        b"\x00" + varint(time) + varint(place) + key + b"\x01\x02\x02h\x01"
        for time, place, key in (
            (5, 0, b"\x01"),
            (9, 1, b"\x02k"),
            (9, 7, b"\x01"),
            (-1, 3, b"\x00"),
            (4, 4, b"\x00"),
            (10, 5, b"\x01"),
            (-7, 6, b"\x00"),
        )
    )
    section = b"".join(varint(len(body)) + body for body in bodies)
    found = kernel.find_faults(section, 7, 0, True, 5, 8)
    assert list(found.misplaced) == [2]
    assert list(found.keyless) == [0, 5]
    assert list(zip(found.untimely, found.timestamps, strict=True)) == [(1, 9), (4, 4), (6, -7)]
    found = kernel.find_faults(section, 7, 0, False, -(2**63), 2**63 - 1)
    assert list(found.misplaced) == [2]
    assert not found.keyless
    assert not found.untimely
    assert not found.timestamps


@given(section=st.binary(max_size=60), count=st.integers(-1, 4))
def test_any_bytes_are_records_or_a_typed_error(
    kernel: ModuleType, section: bytes, count: int
) -> None:
    outcomes = []
    calls: tuple[Callable[[], Any], ...] = (
        lambda: kernel.validate_records(section, count, 0, False),
        lambda: kernel.read_records(section, count),
        lambda: kernel.find_faults(section, count, 0, True, 0, 9),
    )
    for call in calls:
        try:
            outcomes.append(call())
        except InvalidRecordError as error:
            outcomes.append(error)
    validated, read, found = outcomes
    if isinstance(validated, RecordTimes):
        assert [r[2] for r in read] == list(range(count))
        assert validated.max_timestamp == max([-1, *(r[1] for r in read)])
    elif isinstance(read, list):
        assert "offset delta" in str(validated)
    else:
        assert validated.reason == read.reason or "offset delta" in validated.reason
    if isinstance(read, list):
        assert list(found.misplaced) == [i for i, r in enumerate(read) if r[2] != i]
    else:
        assert found.reason == read.reason


@pytest.mark.parametrize(("key", "refused"), [("01", True), ("00", False), ("02 6b", False)])
def test_s11_compacted_topics_need_keys(kernel: ModuleType, key: str, refused: bool) -> None:
    """A null key counts as missing, and an empty one as present."""
    section = record(f"00 00 00 {key} 01 00")
    assert kernel.validate_records(section, 1, 0, False) == RecordTimes(0, 0)
    if refused:
        with pytest.raises(InvalidRecordError, match="record 0: a compacted topic needs a key"):
            kernel.validate_records(section, 1, 0, True)
    else:
        assert kernel.validate_records(section, 1, 0, True) == RecordTimes(0, 0)


Kernels = tuple[ModuleType, ModuleType]


def stored_batch(base_offset: int, codec: Codec, timestamp_type: TimestampType) -> bytes:
    records = tuple(
        NewRecord(
            offset_delta=2 * i,
            timestamp=1000 + 300 * i,
            key=None if i % 2 else b"key",
            value=b"v" * 70 * i,
            headers=((b"h", None),) * (i % 3),
        )
        for i in range(4)
    )
    return BatchToWrite(
        records=records, base_offset=base_offset, codec=codec, timestamp_type=timestamp_type
    ).encode()


LOG = b"".join(
    stored_batch(10 * i, codec, timestamp_type)
    for i, (codec, timestamp_type) in enumerate(
        (codec, timestamp_type)
        for codec in (Codec.NONE, Codec.LZ4, Codec.NONE)
        for timestamp_type in TimestampType
    )
)
SECTION = stored_batch(0, Codec.NONE, TimestampType.CREATE_TIME)[HEADER_SIZE:]

PRODUCED = BatchToWrite(
    records=tuple(
        NewRecord(offset_delta=i, timestamp=1300 + 300 * i, key=b"k", value=b"v" * i)
        for i in range(3)
    ),
    producer_id=4,
    producer_epoch=2,
    base_sequence=7,
    is_transactional=True,
).encode()

edits = st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=9)), max_size=3)


def edited(data: bytes, changes: list[tuple[int, bytes]], length: int) -> bytearray:
    """Return `data` partly overwritten and truncated, as a faulty disk or peer would leave it."""
    changed = bytearray(data)
    for at, replacement in changes:
        at %= len(data)
        changed[at : at + len(replacement)] = replacement[: len(data) - at]
    return changed[:length]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (RecordsError, ValueError) as error:
        return type(error), str(error)


@given(changes=edits, length=st.integers(0, len(LOG)), base_offset=st.integers(-5, 30))
def test_walks_agree(
    both_kernels: Kernels, changes: list[tuple[int, bytes]], length: int, base_offset: int
) -> None:
    for verify in (False, True):
        for walk in ("walk_and_patch", "walk_stored"):
            buffers = [edited(LOG, changes, length) for _ in both_kernels]
            interpreted, compiled = (
                outcome(lambda: getattr(kernel, walk)(buffer, base_offset, verify))  # noqa: B023
                for kernel, buffer in zip(both_kernels, buffers, strict=True)
            )
            assert interpreted == compiled
            assert buffers[0] == buffers[1]


@given(changes=edits, cut=st.integers(0, 20), count=st.integers(0, 5), base=st.integers(-5, 2**63))
def test_records_agree(
    both_kernels: Kernels, changes: list[tuple[int, bytes]], cut: int, count: int, base: int
) -> None:
    section = bytes(edited(SECTION, changes, len(SECTION) - cut if cut < 5 else len(SECTION)))
    base_timestamp = min(base, 2**63 - 1)
    calls: tuple[Callable[[ModuleType], object], ...] = (
        lambda kernel: kernel.validate_records(section, count, base_timestamp, True),
        lambda kernel: kernel.read_records(section, count),
    )
    for call in calls:
        interpreted, compiled = (outcome(lambda: call(kernel)) for kernel in both_kernels)  # noqa: B023
        assert interpreted == compiled


@given(changes=edits, cut=st.integers(0, 20), is_checksum_right=st.booleans(), keys=st.booleans())
def test_summaries_agree(
    both_kernels: Kernels,
    changes: list[tuple[int, bytes]],
    cut: int,
    is_checksum_right: bool,
    keys: bool,
) -> None:
    data = edited(PRODUCED, changes, len(PRODUCED) - cut if cut < 5 else len(PRODUCED))
    if is_checksum_right:
        data = bytearray(with_crc(data))
    interpreted, compiled = (
        outcome(lambda: kernel.summarize(data, len(PRODUCED), keys, 1300, 2000))  # noqa: B023
        for kernel in both_kernels
    )
    assert interpreted == compiled
