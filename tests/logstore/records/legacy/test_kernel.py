"""Tests that the kernel, in both forms, accepts the same sets as the code with objects, and returns the same bytes (S22
to S24).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.compression import compress
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.errors import InvalidRecordError, RecordsError
from lacuna.logstore.records.layout import HEADER_SIZE, Codec, TimestampType
from lacuna.logstore.records.legacy import by_objects, conversion
from lacuna.logstore.records.legacy.codecs import compress_set
from lacuna.logstore.records.legacy.writing import NewMessage, write_entry, write_message_set
from lacuna.logstore.records.packing import pack_batch
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.logstore.records.legacy import naive
from tests.logstore.records.legacy.naive import Rec
from tests.logstore.records.test_kernel import edited, edits

Kernels = tuple[ModuleType, ModuleType]

BOUND = 1 << 20
RULES = ProduceRules(max_message_bytes=BOUND)
LOW, HIGH = -(2**63), 2**63 - 1
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
PAYLOAD = st.none() | st.binary(max_size=12) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 8192])
TIMESTAMP = st.integers(-1, 2**62) | st.sampled_from([LOW, HIGH, 0, 63, 64])
ROWS = st.lists(st.tuples(TIMESTAMP, PAYLOAD, PAYLOAD), min_size=1, max_size=5)
PARTS = st.lists(st.tuples(st.sampled_from(CODECS), st.sampled_from((0, 1)), ROWS), max_size=3)
# Where a change leaves the CRC-32 correct, the sizes must reveal it.
DAMAGE = st.tuples(edits, st.booleans())


class Refused(Exception):
    """The kernel left the set to the code with objects."""


# Produce v0 to v2


def _in_kernel(kernel: ModuleType, message_set: bytes, max_bytes: int) -> bytes | None:
    """Return the kernel's result for a set, or None if it rejects the set."""
    with (
        patch.object(conversion, "kernel", kernel),
        patch.object(by_objects, "to_batch", side_effect=Refused),
    ):
        try:
            return conversion.to_batch(message_set, max_bytes=max_bytes)
        except Refused:
            return None


def _by_objects(message_set: bytes, max_bytes: int) -> bytes | None:
    try:
        return by_objects.to_batch(message_set, max_bytes)
    except RecordsError:
        return None


def _damaged(data: bytes, damage: tuple[list[tuple[int, bytes]], bool], cut: int = 0) -> bytes:
    changes, is_mended = damage
    if not data:
        return data
    changed = bytes(edited(data, changes, len(data) - cut))
    return naive.with_right_crcs(changed) if is_mended else changed


def _message_set(
    parts: Sequence[tuple[Codec, int, Sequence[tuple[int, bytes | None, bytes | None]]]],
    damage: tuple[list[tuple[int, bytes]], bool],
) -> bytes:
    """Return plain messages and wrappers with damaged inner sets."""
    data = b""
    for codec, magic, rows in parts:
        messages = [NewMessage(offset, *row) for offset, row in enumerate(rows)]
        inner = _damaged(write_message_set(messages, magic=magic), damage)
        if codec is Codec.NONE:
            data += inner
        else:
            value = compress_set(codec, inner, magic)
            data += write_entry(len(rows) - 1, magic, codec, 0, None, value)
    return data


@given(
    parts=PARTS,
    is_mixed=st.booleans(),
    inner=DAMAGE,
    outer=DAMAGE,
    cut=st.integers(0, 40),
    max_bytes=st.sampled_from([0, 60, BOUND]),
)
@example([], False, ([], False), ([], False), 0, BOUND)
def test_sets_become_batches(
    both_legacy_kernels: Kernels,
    parts: list[tuple[Codec, int, list[tuple[int, bytes | None, bytes | None]]]],
    is_mixed: bool,
    inner: tuple[list[tuple[int, bytes]], bool],
    outer: tuple[list[tuple[int, bytes]], bool],
    cut: int,
    max_bytes: int,
) -> None:
    """S24: both accept or reject the same valid, damaged, mixed and truncated sets."""
    if not is_mixed:
        parts = [(codec, parts[0][1], rows) for codec, _, rows in parts]
    message_set = _message_set(parts, inner)
    message_set = _damaged(message_set, outer, min(cut, len(message_set)))
    expected = _by_objects(message_set, max_bytes)
    if expected is not None:
        validate_produced(expected, RULES, 0)
    for kernel in both_legacy_kernels:
        assert _in_kernel(kernel, message_set, max_bytes) == expected


@given(
    body=st.binary(max_size=60), head=st.sampled_from([b"", b"\0\0", b"\1\0", b"\1\1", b"\1\x08"])
)
def test_any_message_behind_a_right_checksum(
    both_legacy_kernels: Kernels, body: bytes, head: bytes
) -> None:
    """S22: the lengths of key and value do not fill the message, in a set and in a wrapper."""
    message = head + body
    entry = naive.entry(0, zlib.crc32(message).to_bytes(4, "big") + message)
    for message_set in (entry, naive.wrapper(1, 0, entry), naive.wrapper(0, 0, entry)):
        expected = _by_objects(message_set, BOUND)
        if expected is not None:
            validate_produced(expected, RULES, 0)
        for kernel in both_legacy_kernels:
            assert _in_kernel(kernel, message_set, BOUND) == expected


@pytest.mark.parametrize("times", [(LOW, HIGH), (HIGH, LOW), (-1, HIGH), (1, LOW), (0, LOW)])
def test_timestamps_far_apart(legacy_kernel: ModuleType, times: tuple[int, int]) -> None:
    message_set = naive.plain(1, [Rec(n, time, None, None) for n, time in enumerate(times)])
    expected = _by_objects(message_set, BOUND)
    assert (expected is not None) == (abs(times[1] - times[0]) < 2**63 or times == (0, LOW))
    assert _in_kernel(legacy_kernel, message_set, BOUND) == expected


def test_inner_messages_need_a_wrapper(legacy_kernel: ModuleType) -> None:
    """Magic 1 after magic 0 is rejected, since the writer would exceed its buffer."""
    writer = legacy_kernel.SectionWriter()
    with pytest.raises(InvalidRecordError):
        writer.add(naive.plain(0, [Rec(0, -1, None, None)]), 0, True)
    writer = legacy_kernel.SectionWriter()
    writer.add(naive.plain(0, [Rec(0, -1, None, None)]), 0)
    with pytest.raises(InvalidRecordError):
        writer.add(naive.plain(1, [Rec(0, HIGH, None, None)]), 0, True)
    with pytest.raises(ValueError, match="position -1"):
        writer.add(b"", -1)


@pytest.mark.slow
def test_the_writers_room_is_enough(legacy_kernel: ModuleType) -> None:
    """The smallest messages, whose records are largest in proportion, make the buffer grow many times."""
    for magic in (0, 1):
        times = [LOW if n else HIGH - 2**63 for n in range(3000)]
        one = naive.plain(magic, [Rec(0, time, None, None) for time in times])
        writer = legacy_kernel.SectionWriter()
        for _ in range(7):
            assert writer.add(one, 0) == (len(one), False)
        assert writer.count == 21_000
        section = bytes(writer.section())
        batch = pack_batch(
            section,
            base_offset=0,
            attributes=0,
            last_offset_delta=20_999,
            base_timestamp=writer.base_timestamp,
            max_timestamp=writer.max_timestamp,
            record_count=21_000,
        )
        (read,) = read_batches(batch)
        assert [r.timestamp for r in read.records()] == (times if magic else [-1] * 3000) * 7


# Fetch v0 to v3


def _set_in_kernel(
    kernel: ModuleType, batches: list[bytes], magic: int, max_bytes: int, first_offset: int
) -> bytes | None:
    with (
        patch.object(conversion, "kernel", kernel),
        patch.object(by_objects, "message_sets", side_effect=Refused),
    ):
        try:
            return conversion.from_batches(
                batches, magic=magic, max_bytes=max_bytes, first_offset=first_offset
            )
        except Refused:
            return None


def _set_by_objects(
    batches: list[bytes], magic: int, max_bytes: int, first_offset: int
) -> bytes | None:
    """Do the same with objects. An unreadable batch is rejected completely, whether within the limit or not."""
    converted = b""
    for buffer in batches:
        for batch in read_batches(buffer):
            if batch.header.is_control:
                continue
            try:
                parts = list(by_objects.message_sets(batch, magic, first_offset, BOUND))
            except (RecordsError, ValueError):
                return None
            for part in parts:
                if converted and len(converted) + len(part) > max_bytes:
                    return converted
                converted += part
    return converted


NEW_BATCHES = st.lists(
    st.tuples(
        st.sampled_from(Codec),
        st.sampled_from(TimestampType),
        st.lists(st.integers(0, 9), max_size=5, unique=True).map(sorted),
        st.lists(st.tuples(TIMESTAMP, PAYLOAD, PAYLOAD, st.integers(0, 2)), min_size=5, max_size=5),
    ),
    min_size=1,
    max_size=3,
)


@given(
    shapes=NEW_BATCHES,
    changes=edits,
    base_offset=st.sampled_from([0, 5, 2**40, HIGH - 25, HIGH - 9]),
    magic=st.sampled_from((0, 1)),
    max_bytes=st.integers(0, 400) | st.just(BOUND),
    first=st.integers(-3, 30),
    has_filler=st.booleans(),
)
def test_batches_become_sets(
    both_legacy_kernels: Kernels,
    shapes: list[
        tuple[
            Codec,
            TimestampType,
            list[int],
            list[tuple[int, bytes | None, bytes | None, int]],
        ]
    ],
    changes: list[tuple[int, bytes]],
    base_offset: int,
    magic: int,
    max_bytes: int,
    first: int,
    has_filler: bool,
) -> None:
    """S24: for holes, both timestamp types, every codec, damaged records, any limit and any first offset."""
    batches = []
    for number, (codec, kind, deltas, rows) in enumerate(shapes):
        records = tuple(
            NewRecord(
                offset_delta=delta,
                timestamp=row[0] if abs(row[0]) < 2**62 else number,
                key=row[1],
                value=row[2],
                headers=((b"h", None), (b"", b"x"))[: row[3]],
            )
            for delta, row in zip(deltas, rows, strict=False)
        )
        whole = BatchToWrite(
            records=records, last_offset_delta=9, timestamp_type=kind, max_timestamp=77
        ).encode()
        (batch,) = read_batches(whole)
        section = bytes(whole[HEADER_SIZE:])
        if number == 0 and section:
            section = bytes(edited(section, changes, len(section)))
        packed = pack_batch(
            compress(codec, section),
            base_offset=min(base_offset + 10 * number, HIGH),
            attributes=batch.header.attributes | codec,
            last_offset_delta=9,
            base_timestamp=batch.header.base_timestamp,
            max_timestamp=77,
            record_count=len(records),
        )
        batches.append(packed)
    if has_filler:
        batches.append(filler(7, 9))
    first_offset = min(base_offset + first, HIGH)
    expected = _set_by_objects(batches, magic, max_bytes, first_offset)
    for kernel in both_legacy_kernels:
        assert _set_in_kernel(kernel, batches, magic, max_bytes, first_offset) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("count", [60, 61])
def test_more_records_than_a_wrapper_has(
    legacy_kernel: ModuleType, monkeypatch: pytest.MonkeyPatch, codec: Codec, count: int
) -> None:
    """They become several wrappers, the last one full or not. Wrappers before the first offset are omitted."""
    for module in (conversion, by_objects):
        monkeypatch.setattr(module, "MAX_WRAPPER_RECORDS", 20)
    records = tuple(NewRecord(offset_delta=delta, timestamp=-delta) for delta in range(count))
    batches = [BatchToWrite(records=records, base_offset=9, codec=codec).encode()]
    for magic in (0, 1):
        for max_bytes in (1, 300, BOUND):
            expected = _set_by_objects(batches, magic, max_bytes, 9 + 25)
            assert _set_in_kernel(legacy_kernel, batches, magic, max_bytes, 9 + 25) == expected


def test_offsets_below_0(legacy_kernel: ModuleType) -> None:
    """No log has them, so the kernel leaves them to the code with objects, which rejects them."""
    batches = [BatchToWrite(records=(NewRecord(offset_delta=0),), base_offset=-1).encode()]
    assert _set_in_kernel(legacy_kernel, batches, 1, BOUND, -1) is None
    with pytest.raises(ValueError, match="they must increase"):
        conversion.from_batches(batches, magic=1, first_offset=-1)


def test_what_the_reader_refuses(legacy_kernel: ModuleType) -> None:
    """Extra bytes after the records, truncated records and wrong record counts are rejected."""
    section = BatchToWrite(records=(NewRecord(offset_delta=0),)).encode()[HEADER_SIZE:]

    def reader(section: object, count: int) -> object:
        return legacy_kernel.RecordReader(
            section,
            record_count=count,
            base_offset=0,
            last_offset_delta=1,
            base_timestamp=0,
            append_time=None,
        )

    assert reader(section, 1)
    assert reader(b"", -5)
    for wrong, count in ((section + b"x", 1), (section[:-1], 1), (section, 2), (section, 0)):
        with pytest.raises(InvalidRecordError):
            reader(wrong, count)


def test_magics_that_are_none() -> None:
    with pytest.raises(ValueError, match="magic 0 or 1, not 2"):
        conversion.from_batches([], magic=2, first_offset=0)
