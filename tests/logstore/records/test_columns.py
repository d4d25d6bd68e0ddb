"""Compares columns, in both forms of the module, with `RecordBatch.records` row by row."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.column_layout import BinaryColumn, RecordColumns
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    CorruptRecordsError,
    DecompressedTooLargeError,
    InvalidRecordError,
    RecordsError,
    TruncatedBatchError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import HEADER_SIZE, Codec, TimestampType
from lacuna.logstore.records.packing import with_crc
from tests.logstore.records.conftest import Row, rows_of
from tests.logstore.records.test_coalesce import stored_batches
from tests.logstore.records.test_kernel import LOG, edited, edits

ALL = 2**63 - 1


def expected(batches: list[bytes]) -> list[Row]:
    """Return what a consumer reads, computed the slow way."""
    return [
        (r.offset, r.timestamp, int(b.header.timestamp_type), r.key, r.value, r.headers)
        for data in batches
        for b in read_batches(data)
        if not b.header.is_control
        for r in b.records()
    ]


def read(module: ModuleType, buffer: bytes | memoryview, **options: int) -> list[RecordColumns]:
    """Return all columns of a buffer. Accepts the options of `read` and of the builder."""
    bounds = {"first_offset", "end_offset", "min_timestamp", "max_timestamp", "position", "end"}
    where = {name: options.pop(name) for name in [*options] if name in bounds}
    builder = module.ColumnBuilder(**{"headers": True, **options})
    chunks = [*builder.read(buffer, **where)]
    last = builder.take()
    assert builder.take() is None
    return chunks if last is None else [*chunks, last]


def plain(
    base_offset: int, count: int = 2, size: int = 10, codec: Codec = Codec.NONE
) -> BatchToWrite:
    records = tuple(
        NewRecord(offset_delta=i, timestamp=base_offset + i, key=b"k%d" % i, value=b"v" * size)
        for i in range(count)
    )
    return BatchToWrite(base_offset=base_offset, records=records, codec=codec)


@given(
    batches=stored_batches(),
    max_bytes=st.sampled_from([1, 300, 1 << 20]),
    max_records=st.sampled_from([1, 3, 1000]),
)
def test_every_record_is_there_once_and_as_it_was(
    columns: ModuleType, batches: list[bytes], max_bytes: int, max_records: int
) -> None:
    chunks = read(columns, b"".join(batches), max_bytes=max_bytes, max_records=max_records)
    assert [row for chunk in chunks for row in rows_of(chunk)] == expected(batches)
    for chunk in chunks:
        assert 0 < chunk.count <= max_records
        sizes = [len(key or b"") + len(value or b"") for *_, key, value, _ in rows_of(chunk)]
        assert chunk.count == 1 or sum(sizes) <= max_bytes


@pytest.mark.slow
@given(batches=stored_batches(), data=st.data())
def test_only_wanted_offsets_and_timestamps(
    columns: ModuleType, batches: list[bytes], data: st.DataObject
) -> None:
    rows = expected(batches)
    places = st.sampled_from([0, *(row[0] for row in rows), *(row[0] + 1 for row in rows)])
    times = st.sampled_from([-1, *(row[1] for row in rows)])
    first, end = data.draw(places), data.draw(places)
    low, high = data.draw(times), data.draw(times)
    chunks = read(
        columns,
        b"".join(batches),
        first_offset=first,
        end_offset=end,
        min_timestamp=low,
        max_timestamp=high,
        max_records=2,
    )
    wanted = [row for row in rows if first <= row[0] < end and low <= row[1] <= high]
    assert [row for chunk in chunks for row in rows_of(chunk)] == wanted


def test_s19_pyarrow_takes_the_buffers_as_they_are(columns: ModuleType) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    batch = dataclasses.replace(
        plain(5),
        records=(
            NewRecord(offset_delta=0, key=None, value=b"one", headers=((b"h", None), (b"i", b""))),
            NewRecord(offset_delta=1, key=b"", value=None),
            NewRecord(offset_delta=2, key=b"key", value=b"three", headers=((b"j", b"x"),)),
        ),
    )
    (found,) = read(columns, batch.encode())

    def binary(column: BinaryColumn | None, count: int, kind: object) -> Any:
        assert column is not None
        validity = None if column.validity is None else pa.py_buffer(column.validity)
        buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        return pa.Array.from_buffers(kind, count, buffers)

    assert binary(found.keys, 3, pa.binary()).to_pylist() == [None, b"", b"key"]
    assert binary(found.values, 3, pa.binary()).to_pylist() == [b"one", None, b"three"]
    offsets = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(found.offsets)])
    assert offsets.to_pylist() == [5, 6, 7]
    assert found.headers is not None
    keys = binary(found.headers.keys, 3, pa.string())
    values = binary(found.headers.values, 3, pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    lists = pa.Array.from_buffers(
        pa.list_(pairs.type), 3, [None, pa.py_buffer(found.headers.list_offsets)], children=[pairs]
    )
    lists.validate(full=True)
    assert lists.to_pylist() == [
        [{"key": "h", "value": None}, {"key": "i", "value": b""}],
        [],
        [{"key": "j", "value": b"x"}],
    ]


def test_a_column_that_is_not_wanted_is_not_there(columns: ModuleType) -> None:
    builder = columns.ColumnBuilder(keys=False, values=False)
    assert [*builder.read(plain(0).encode())] == []
    found = builder.take()
    assert (found.count, found.offsets.tolist()) == (2, [0, 1])
    rest = (found.keys, found.values, found.headers, found.tombstones, found.horizons)
    assert rest == (None,) * 5


def test_columns_go_on_over_many_buffers(columns: ModuleType) -> None:
    builder = columns.ColumnBuilder(max_records=5)
    batches = [plain(10 * i).encode() for i in range(6)]
    chunks = [chunk for data in batches for chunk in builder.read(data)]
    assert [chunk.count for chunk in chunks] == [5, 5]
    rows = [row for chunk in [*chunks, builder.take()] for row in rows_of(chunk)]
    assert rows == expected(batches)


def test_a_part_of_a_buffer(columns: ModuleType) -> None:
    batches = [plain(10 * i).encode() for i in range(3)]
    buffer = memoryview(bytearray(b"".join(batches)))
    size = len(batches[0])
    (found,) = read(columns, buffer, position=size, end=2 * size)
    assert rows_of(found) == expected(batches[1:2])
    for position, end in ((-1, 5), (6, 5), (0, len(buffer) + 1)):
        with pytest.raises(ValueError, match="are not within"):
            columns.ColumnBuilder().read(buffer, position, end if end != -1 else 0)


def test_control_batches_are_passed_over(columns: ModuleType) -> None:
    batches = [plain(0).encode(), filler(2, 5), plain(5).encode()]
    (found,) = read(columns, b"".join(batches))
    assert rows_of(found) == expected(batches)


def test_the_append_time_is_that_of_every_record(columns: ModuleType) -> None:
    batch = dataclasses.replace(
        plain(0), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=77
    ).encode()
    (found,) = read(columns, batch)
    assert (found.timestamps.tolist(), found.timestamp_types.tolist()) == ([77, 77], [1, 1])
    assert read(columns, batch, max_timestamp=76) == []
    assert read(columns, batch, min_timestamp=78) == []


def test_what_is_not_wanted_is_not_decompressed(columns: ModuleType) -> None:
    """Reading only offsets and header timestamps skips even a batch that cannot be decompressed."""
    bad = bytearray(plain(10, codec=Codec.LZ4).encode())
    bad[HEADER_SIZE:] = b"\xff" * (len(bad) - HEADER_SIZE)
    batches = [plain(0).encode(), bytes(bad), plain(20).encode()]
    buffer = b"".join(batches)
    assert [c.count for c in read(columns, buffer, end_offset=10)] == [2]
    assert [c.count for c in read(columns, buffer, first_offset=12)] == [2]
    assert [c.count for c in read(columns, buffer, min_timestamp=12)] == [2]
    with pytest.raises(CorruptRecordsError):
        read(columns, buffer)


def with_horizon_bit(batch: bytes) -> bytes:
    header = BatchHeader.parse(batch)
    marked = header._replace(attributes=header.attributes | 0x40)
    return with_crc(bytearray(marked.pack() + batch[HEADER_SIZE:]))


def test_keys_tombstones_and_horizons(columns: ModuleType) -> None:
    """KIP-534: base_timestamp is the horizon, to which the records' deltas are relative."""
    batch = BatchToWrite(
        base_offset=7,
        base_timestamp=90_000,
        records=(
            NewRecord(offset_delta=0, timestamp=100, key=b"a", value=None),
            NewRecord(offset_delta=3, timestamp=200, key=b"b", value=b"x"),
        ),
    ).encode()
    (found,) = columns.scan_keys(with_horizon_bit(batch) + plain(20).encode())
    assert found.offsets.tolist() == [7, 10, 20, 21]
    assert found.timestamps.tolist() == [100, 200, 20, 21]
    assert found.tombstones.tolist() == [1, 0, 0, 0]
    assert found.horizons.tolist() == [90_000, 90_000, -1, -1]
    assert [row[3] for row in rows_of(found)] == [b"a", b"b", b"k0", b"k1"]
    assert found.values is None
    assert [c.count for c in columns.scan_keys(batch, 8, 21)] == [1]


def test_one_record_larger_than_the_bound_goes_alone(columns: ModuleType) -> None:
    batches = [plain(0, 1).encode(), plain(1, 1, 500).encode(), plain(2, 2).encode()]
    chunks = read(columns, b"".join(batches), max_bytes=100)
    assert [chunk.count for chunk in chunks] == [1, 1, 2]


@pytest.mark.parametrize("bounds", [{"max_bytes": 0}, {"max_bytes": 2**31}, {"max_records": 0}])
def test_bounds_that_offsets_could_not_hold_are_refused(
    columns: ModuleType, bounds: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        columns.ColumnBuilder(**bounds)


def test_a_batch_that_expands_too_far(columns: ModuleType) -> None:
    data = plain(0, 2, 10_000, Codec.LZ4).encode()
    with pytest.raises(DecompressedTooLargeError):
        read(columns, data, max_decompressed_bytes=5000)


def test_a_cut_off_batch(columns: ModuleType) -> None:
    data = plain(0).encode()
    for end in range(1, len(data)):
        with pytest.raises(TruncatedBatchError):
            read(columns, data[:end])


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"record_count": 1}, InvalidRecordError),
        ({"record_count": 3}, InvalidRecordError),
        ({"record_count": -1}, CorruptBatchError),
        ({"last_offset_delta": 0}, InvalidRecordError),
        ({"last_offset_delta": -1}, CorruptBatchError),
        ({"base_offset": 2**63 - 1}, CorruptBatchError),
        ({"base_offset": -1}, CorruptBatchError),
        ({"base_timestamp": 2**63 - 1}, InvalidRecordError),
        ({"batch_length": 10}, CorruptBatchError),
        ({"magic": 1}, CorruptBatchError),
        ({"attributes": 5}, UnsupportedCodecError),
    ],
)
def test_headers_at_odds_with_their_records(
    columns: ModuleType, fields: dict[str, int], kind: type[RecordsError]
) -> None:
    data = plain(0).encode()
    forged = BatchHeader.parse(data)._replace(**fields).pack() + data[HEADER_SIZE:]
    with pytest.raises(kind):
        read(columns, forged)


def outcome(module: ModuleType, data: bytes, options: dict[str, int]) -> object:
    try:
        return [rows_of(chunk) for chunk in read(module, data, **options)]
    except (RecordsError, ValueError) as error:
        return type(error), str(error)


@given(changes=edits, length=st.integers(0, len(LOG)), first=st.integers(0, 60))
def test_forms_agree_on_damaged_bytes(
    both_columns: tuple[ModuleType, ModuleType],
    changes: list[tuple[int, bytes]],
    length: int,
    first: int,
) -> None:
    data = bytes(edited(LOG, changes, length if length % 3 == 0 else len(LOG)))
    for options in ({}, {"first_offset": first, "max_records": 2, "min_timestamp": 1300}):
        interpreted, compiled = (outcome(module, data, dict(options)) for module in both_columns)
        assert interpreted == compiled


@given(data=st.binary(max_size=200), section=st.booleans())
def test_any_bytes_give_columns_or_a_typed_error(
    both_columns: tuple[ModuleType, ModuleType], data: bytes, section: bool
) -> None:
    if section:
        header = BatchHeader.parse(plain(0, 3).encode())
        data = header._replace(batch_length=HEADER_SIZE - 12 + len(data)).pack() + data
    interpreted, compiled = (outcome(module, data, {}) for module in both_columns)
    assert interpreted == compiled
