"""Tests encoding columns as batches, in both forms of the module, and partitioning by key as in the Java client."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from lacuna.logstore.records.batch import BatchHeader, read_batches
from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.errors import BatchTooLargeError, InvalidRecordError
from lacuna.logstore.records.layout import HEADER_SIZE, Codec
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.logstore.records.conftest import binary_column, rows_of

RULES = ProduceRules(max_message_bytes=1048588)
Headers = tuple[tuple[bytes, bytes | None], ...]
Row = tuple[int, bytes | None, bytes | None, Headers]

byte_strings = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(
        st.integers(-1, 2**62) | st.sampled_from([-(2**63), 2**63 - 1]),
        byte_strings,
        byte_strings,
        st.lists(st.tuples(st.binary(max_size=5), byte_strings), max_size=2).map(tuple),
    ),
    max_size=20,
)


def header_column(rows: Sequence[Headers]) -> HeaderColumn:
    lists = array("i", [0])
    for row in rows:
        lists.append(lists[-1] + len(row))
    pairs = [pair for row in rows for pair in row]
    keys, values = (binary_column([pair[i] for pair in pairs]) for i in (0, 1))
    return HeaderColumn(lists, keys, values)


def encode(
    module: ModuleType,
    found: Sequence[Row],
    rows: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    **options: int,
) -> list[bytes]:
    batches = module.encode_batches(
        binary_column([row[1] for row in found]),
        binary_column([row[2] for row in found]),
        header_column([row[3] for row in found]),
        array("q", (row[0] for row in found)),
        array("q", range(len(found)) if rows is None else rows),
        codec,
        **options,
    )
    assert isinstance(batches, list)
    return batches


def decoded(batches: list[bytes]) -> list[Row]:
    return [
        (record.timestamp, record.key, record.value, record.headers)
        for data in batches
        for batch in read_batches(data)
        for record in batch.records()
    ]


@given(
    found=records,
    codec=st.sampled_from(Codec),
    max_batch_bytes=st.sampled_from([1, 500, 1 << 19]),
    data=st.data(),
)
def test_s11_every_row_is_in_a_batch_that_produce_takes(
    encoding: ModuleType,
    found: list[Row],
    codec: Codec,
    max_batch_bytes: int,
    data: st.DataObject,
) -> None:
    rows = data.draw(st.permutations(range(len(found))))[: data.draw(st.integers(0, 20))]
    batches = encode(encoding, found, rows, codec, max_batch_bytes=max_batch_bytes)
    assert decoded(batches) == [found[row] for row in rows]
    for one in batches:
        summary = validate_produced(one, RULES, 0)
        (batch,) = read_batches(one)
        header = batch.header
        times = [record.timestamp for record in batch.records()]
        assert (header.base_timestamp, header.max_timestamp) == (times[0], max(-1, *times))
        assert (summary.producer_id, summary.codec) == (-1, codec)
        assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
        assert not header.is_transactional
        size = HEADER_SIZE + len(batch.section())
        assert summary.record_count == 1 or size <= max_batch_bytes


def test_columns_may_be_left_out(encoding: ModuleType) -> None:
    times, rows = array("q", [5, 6]), array("q", [1])
    (one,) = encoding.encode_batches(None, None, None, times, rows, Codec.NONE)
    assert decoded([one]) == [(6, None, None, ())]
    assert encoding.encode_batches(None, None, None, times, array("q"), Codec.LZ4) == []


def test_rows_older_than_1970_have_no_largest_timestamp(encoding: ModuleType) -> None:
    """Kafka's producers and a segment's index both count from -1 up."""
    (one,) = encoding.encode_batches(None, None, None, array("q", [-5, -9]), array("q", [0, 1]), 0)
    assert BatchHeader.parse(one).max_timestamp == -1
    assert decoded([one]) == [(-5, None, None, ()), (-9, None, None, ())]


def test_what_was_decoded_is_encoded_again(encoding: ModuleType) -> None:
    """The columns from ColumnBuilder are encoded back unchanged."""
    found: list[Row] = [(1, b"k", None, ((b"h", b"x"),)), (2, None, b"v", ()), (3, b"", b"w", ())]
    builder = ColumnBuilder(headers=True)
    (first,) = encode(encoding, found)
    assert [*builder.read(first)] == []
    columns = builder.take()
    assert columns is not None
    rows = array("q", range(3))
    (second,) = encoding.encode_batches(
        columns.keys, columns.values, columns.headers, columns.timestamps, rows, Codec.NONE
    )
    assert second == first
    assert [row[3:] for row in rows_of(columns)] == [row[1:] for row in found]


def test_arrow_arrays_and_their_slices(encoding: ModuleType) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    values = pa.array([b"a", None, b"ccc", b"dd"], pa.binary())
    times = pa.array([1, 2, 3, 4], pa.timestamp("ms"))
    part, part_times = values.slice(1), times.slice(1)
    column = BinaryColumn(*part.buffers())
    rows = array("q", [part.offset + row for row in range(3)])
    (one,) = encoding.encode_batches(None, column, None, part_times.buffers()[1], rows, Codec.LZ4)
    assert [row[:3] for row in decoded([one])] == [
        (2, None, None),
        (3, None, b"ccc"),
        (4, None, b"dd"),
    ]


def incompressible(size: int) -> bytes:
    return b"".join((i * 2654435761 % 2**32).to_bytes(4, "big") for i in range(size // 4))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.SNAPPY])
def test_one_record_larger_than_the_limit_is_named(encoding: ModuleType, codec: Codec) -> None:
    found: list[Row] = [(0, b"k", b"v", ()), (0, b"k", incompressible(40_000), ())]
    with pytest.raises(
        BatchTooLargeError, match=r"the batch with only the record of row 1 is 4\d{4} bytes"
    ) as e:
        encode(encoding, found, None, codec, max_message_bytes=30_000)
    assert (e.value.size > 40_000, e.value.limit) == (True, 30_000)
    assert len(encode(encoding, found, None, codec, max_batch_bytes=1000)) == 2


def test_a_record_that_compresses_below_the_limit_is_taken(encoding: ModuleType) -> None:
    """max.message.bytes limits the batch as sent (S11)."""
    found: list[Row] = [(0, None, b"x" * 100_000, ())]
    (one,) = encode(encoding, found, None, Codec.LZ4, max_message_bytes=5000)
    assert len(one) < 5000


def test_a_record_too_large_to_be_read_again_stays_uncompressed(
    encoding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "DEFAULT_MAX_DECOMPRESSED_BYTES", 1000)
    found: list[Row] = [(1, None, bytes(2000), ()), (2, None, b"v", ())]
    batches = encode(encoding, found, None, Codec.ZSTD, max_batch_bytes=500)
    assert [BatchHeader.parse(one).codec for one in batches] == [Codec.NONE, Codec.ZSTD]
    assert decoded(batches) == found


@pytest.mark.parametrize("codec", Codec)
def test_what_does_not_compress_still_fits(encoding: ModuleType, codec: Codec) -> None:
    value = incompressible(1000)
    found: list[Row] = [(0, b"%d" % i, value[i:] + value[:i], ()) for i in range(300)]
    options = {"max_batch_bytes": 1 << 20, "max_message_bytes": 50_000}
    batches = encode(encoding, found, None, codec, **options)
    assert decoded(batches) == found
    assert max(len(one) for one in batches) <= 50_000


def test_times_too_far_apart_begin_another_batch(encoding: ModuleType) -> None:
    times = [1, -(2**63), 2**63 - 1, -2]
    batches = encode(encoding, [(time, None, b"", ()) for time in times])
    assert [BatchHeader.parse(one).record_count for one in batches] == [1, 1, 1, 1]


def test_a_header_needs_a_key(encoding: ModuleType) -> None:
    headers = header_column([((b"a", None),), ((b"b", b""), (None, b""))])  # type: ignore[list-item]
    with pytest.raises(InvalidRecordError, match="record 1: the key of header 1 is null"):
        encoding.encode_batches(
            None, None, headers, array("q", [0, 0]), array("q", [0, 1]), Codec.NONE
        )


GOOD = binary_column([b"ab", b"c"])
TIMES, BOTH = array("q", [1, 2]), array("q", [0, 1])


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (replace(GOOD, offsets=array("i", [0, 2])), IndexError),
        (replace(GOOD, offsets=array("i")), IndexError),
        (replace(GOOD, offsets=array("i", [0, 2, 4])), ValueError),
        (replace(GOOD, offsets=array("i", [0, 3, 2])), ValueError),
        (replace(GOOD, offsets=array("i", [-1, 2, 3])), ValueError),
        (replace(GOOD, validity=b""), IndexError),
        (replace(GOOD, offsets=b"12345"), TypeError),
    ],
)
def test_buffers_that_are_no_column(
    encoding: ModuleType, column: BinaryColumn, error: type[Exception]
) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: encoding.encode_batches(column, None, None, TIMES, BOTH, 0),
        lambda: encoding.encode_batches(None, column, None, TIMES, BOTH, 0),
        lambda: encoding.murmur2_partitions(column, 2, 5),
    )
    for call in calls:
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("rows", [[-1], [2], [0, 2**40]])
def test_rows_that_are_not_there(encoding: ModuleType, rows: list[int]) -> None:
    with pytest.raises(IndexError, match="does not exist; there are 2 rows"):
        encoding.encode_batches(GOOD, GOOD, None, TIMES, array("q", rows), 0)


@pytest.mark.parametrize("lists", [[0, 1], [0, 1, 9], [0, 3, 1], [-1, 0, 0]])
def test_headers_that_are_not_there(encoding: ModuleType, lists: list[int]) -> None:
    headers = HeaderColumn(array("i", lists), GOOD, GOOD)
    with pytest.raises((IndexError, ValueError)):
        encoding.encode_batches(None, None, headers, TIMES, BOTH, 0)


@given(
    validity=st.none() | st.binary(max_size=2),
    offsets=st.lists(st.integers(-2, 40) | st.integers(-(2**31), 2**31 - 1), max_size=6),
    data=st.binary(max_size=40),
    rows=st.lists(st.integers(-2, 6), max_size=5),
)
def test_forms_agree_on_any_buffers(
    both_encodings: tuple[ModuleType, ModuleType],
    validity: bytes | None,
    offsets: list[int],
    data: bytes,
    rows: list[int],
) -> None:
    column = BinaryColumn(validity, array("i", offsets), data)
    headers = HeaderColumn(array("i", offsets[::-1]), column, column)
    times = array("q", range(4))
    found = []
    for module in both_encodings:
        outcomes: list[object] = []
        calls: tuple[Callable[[], object], ...] = (
            lambda: module.encode_batches(column, None, headers, times, array("q", rows), 3),  # noqa: B023
            lambda: module.murmur2_partitions(column, 3, 7),  # noqa: B023
        )
        for call in calls:
            try:
                outcomes.append(call())
            except (IndexError, ValueError, InvalidRecordError, BatchTooLargeError) as error:
                outcomes.append((type(error), str(error)))
        found.append(outcomes)
    assert found[0] == found[1]


# Vectors from Kafka's own tests for its hash, as signed 32-bit ints.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("partition_count", [1, 2, 7, 2**31 - 1])
def test_partitions_of_known_keys(encoding: ModuleType, partition_count: int) -> None:
    found = encoding.murmur2_partitions(binary_column([*MURMUR2]), len(MURMUR2), partition_count)
    expected = [(value & 0x7FFFFFFF) % partition_count for value in MURMUR2.values()]
    assert found.tolist() == expected


@given(keys=st.lists(st.none() | st.binary(max_size=40), max_size=20), count=st.integers(1, 1000))
def test_partitions_are_those_of_another_client(
    encoding: ModuleType, keys: list[bytes | None], count: int
) -> None:
    found = encoding.murmur2_partitions(binary_column(keys), len(keys), count)
    expected = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert found.tolist() == expected
    assert encoding.murmur2_partitions(None, 3, count).tolist() == [-1, -1, -1]
    with pytest.raises(ValueError, match="cannot have 0 partitions"):
        encoding.murmur2_partitions(None, 3, 0)
