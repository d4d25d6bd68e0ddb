"""Tests that a merge changes how records are stored but not what a consumer sees."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.logstore.objects import Part
from lacuna.logstore.records.batch import BatchHeader, Record, RecordBatch, read_batches
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.segments import (
    CorruptSegmentError,
    LiveRange,
    MergedRun,
    merge_ranges,
)
from lacuna.logstore.segments.layout import MAX_BLOCK_SIZE
from lacuna.logstore.segments.merge import RUN_SIZE, MergeOptions
from tests.logstore.segments.samples import KEY, batch, batches, check_segment, segment, slice_of


@dataclass(frozen=True)
class Source:
    """The batches of one extent and its base offset, which the batches hold if `has_true_offsets`."""

    batches: list[bytes]
    base_offset: int
    has_true_offsets: bool = False

    @property
    def next_offset(self) -> int:
        return self.base_offset + sum(
            BatchHeader.parse(found).last_offset_delta + 1 for found in self.batches
        )

    def stored(self) -> bytes:
        if not self.has_true_offsets:
            return b"".join(self.batches)
        offset, patched = self.base_offset, []
        for found in self.batches:
            patched.append(offset.to_bytes(8, "big") + found[8:])
            offset += BatchHeader.parse(found).last_offset_delta + 1
        return b"".join(patched)

    def live(self) -> LiveRange:
        return LiveRange(
            KEY,
            1000,
            bytearray(self.stored()),
            self.base_offset,
            self.next_offset,
            self.has_true_offsets,
        )


def records_of(found: Part) -> list[Record]:
    return [record for one in read_batches(found) for record in one.records()]


def naively(sources: Sequence[Source]) -> list[tuple[Record, TimestampType]]:
    """Return what a consumer reads from the extents, batch by batch."""
    seen = []
    for source in sources:
        offset = source.base_offset
        for found in source.batches:
            header = BatchHeader.parse(found)
            kind = header.timestamp_type
            records = RecordBatch(header, memoryview(found)).records()
            seen += [(replace(record, offset=offset + record.offset), kind) for record in records]
            offset += header.last_offset_delta + 1
    return seen


def joined(run: MergedRun) -> bytes:
    return b"".join(run.batches)


def read(runs: Sequence[MergedRun]) -> list[tuple[Record, TimestampType]]:
    return [(record, run.timestamp_type) for run in runs for record in records_of(joined(run))]


def merge(
    sources: Sequence[Source], end: int | None = None, options: MergeOptions | None = None
) -> list[MergedRun]:
    end_offset = sources[-1].next_offset if end is None else end
    live = (source.live() for source in sources)
    return list(merge_ranges(live, end_offset, options or MergeOptions()))


@st.composite
def extents(draw: st.DrawFn) -> list[Source]:
    """Draws extents in offset order with holes between them, each with one timestamp type."""
    offset = draw(st.sampled_from([0, 5, 2**33]))
    sources = []
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.sampled_from([0, 0, 1, 1000, 2**32]))
        kind = draw(st.sampled_from(TimestampType))
        found = [
            one
            for one in draw(st.lists(batches, min_size=1, max_size=6))
            if BatchHeader.parse(one).timestamp_type is kind
        ]
        if found:
            sources.append(Source(found, offset, draw(st.booleans())))
            offset = sources[-1].next_offset
    return sources


@settings(deadline=None)
@given(extents(), st.sampled_from([62, 150, 10_000]), st.sampled_from([100, 400, RUN_SIZE]))
def test_a_merge_changes_no_record(
    sources: list[Source], pass_through_size: int, run_size: int
) -> None:
    """S14, S16, S19: offsets, order, keys, values, headers, timestamps and timestamp types are unchanged."""
    end = (sources[-1].next_offset if sources else 0) + 17
    runs = merge(sources, end, MergeOptions(pass_through_size=pass_through_size, run_size=run_size))
    assert read(runs) == naively(sources)
    check_runs(runs, end, run_size)
    if runs:
        check_as_segment(runs)
        again = [
            LiveRange(KEY, 0, bytearray(joined(run)), run.base_offset, run.next_offset, True)
            for run in runs
        ]
        assert read(list(merge_ranges(again, end))) == naively(sources)


def check_runs(runs: Sequence[MergedRun], end: int, run_size: int) -> None:
    """Check each run's description for the control plane."""
    position = 0
    for number, run in enumerate(runs):
        headers = [BatchHeader.parse(found) for found in run.batches]
        assert [header.size for header in headers] == [len(found) for found in run.batches]
        assert (run.position, run.size) == (position, len(joined(run)))
        assert run.size <= run_size or len(run.batches) == 1
        assert run.base_offset == headers[0].base_offset
        is_last = number == len(runs) - 1
        assert run.next_offset == (end if is_last else headers[-1].next_offset)
        assert run.max_timestamp == max(header.max_timestamp for header in headers)
        assert {header.timestamp_type for header in headers} == {run.timestamp_type}
        position += run.size


def check_as_segment(runs: Sequence[MergedRun]) -> None:
    """Check that the runs, written as one slice, are a valid segment at the right positions."""
    written, data = segment(
        slice_of([bytes(found) for run in runs for found in run.batches]), has_true_offsets=True
    )
    check_segment(KEY, data)
    base = written.slices[0].position
    for run in runs:
        assert data[base + run.position :][: run.size] == joined(run)


def test_many_small_batches_become_one() -> None:
    """S19: the result has no producer id or transactional bit, and uses the codec of the first batch."""
    sources = [
        Source([batch(2, producer=(7, 0), codec=Codec.LZ4), batch(producer=(7, 0))], 10),
        Source([batch(3, timestamp=500)], 40, has_true_offsets=True),
    ]
    (run,) = merge(sources, 50)
    (found,) = run.batches
    header = BatchHeader.parse(found)
    assert (header.base_offset, header.next_offset, header.record_count) == (10, 43, 6)
    assert (header.producer_id, header.is_transactional) == (-1, False)
    assert header.codec is Codec.LZ4
    assert (run.base_offset, run.next_offset, run.max_timestamp) == (10, 50, 1001)


def test_a_large_batch_keeps_its_bytes_but_its_offset() -> None:
    """S20: only base_offset and partition_leader_epoch are patched, and the checksum remains valid."""
    large = batch(3, value=b"x" * 30_000, producer=(7, 3))
    (run,) = merge([Source([batch(), large, batch()], 100)])
    assert [len(found) > 1000 for found in run.batches] == [False, True, False]
    assert bytes(run.batches[1][16:]) == large[16:]
    assert BatchHeader.parse(run.batches[1]).base_offset == 101
    next(read_batches(run.batches[1])).verify()


def test_one_small_batch_alone_is_not_taken_apart() -> None:
    lonely = batch(2, codec=Codec.ZSTD, producer=(7, 3))
    (run,) = merge([Source([lonely], 5)])
    assert bytes(run.batches[0][16:]) == lonely[16:]


def test_nothing_left_is_no_run() -> None:
    assert list(merge_ranges([], 100)) == []


def test_a_run_ends_where_the_timestamp_type_changes() -> None:
    append_time = TimestampType.LOG_APPEND_TIME
    sources = [
        Source([batch(2), batch()], 0),
        Source([batch(timestamp_type=append_time), batch(timestamp_type=append_time)], 3),
        Source([batch(timestamp_type=append_time, timestamp=7)], 5),
    ]
    runs = merge(sources)
    assert [run.timestamp_type for run in runs] == [TimestampType.CREATE_TIME, append_time]
    assert [len(run.batches) for run in runs] == [1, 2]


def test_runs_and_blocks_stay_within_their_sizes() -> None:
    sources = [Source([batch(value=b"x" * 60_000) for _ in range(50)], 0)]
    runs = merge(sources)
    assert all(run.size <= RUN_SIZE for run in runs)
    assert all(run.size > RUN_SIZE // 2 for run in runs[:-1])
    assert all(len(found) <= MAX_BLOCK_SIZE for run in runs for found in run.batches)
    (huge,) = merge([Source([batch(value=b"x" * (RUN_SIZE + 1))], 0)])
    assert huge.size > RUN_SIZE


def test_memory_is_bounded_by_a_run() -> None:
    """Ranges are read lazily: the first run is complete before the last range is read."""
    drawn = 0

    def ranges() -> Iterator[LiveRange]:
        nonlocal drawn
        for number in range(100):
            drawn += 1
            yield Source([batch(value=b"x" * 1000)] * 10, number * 10).live()

    runs = merge_ranges(ranges(), 1000, MergeOptions(run_size=20_000, batch_size=20_000))
    next(runs)
    assert drawn < 8
    assert sum(1 for _ in runs) > 10
    assert drawn == 100


def test_damage_is_named_with_its_object() -> None:
    live = Source([batch(), batch()], 0).live()
    live.data[len(batch()) + 65] ^= 1
    with pytest.raises(CorruptSegmentError) as caught:
        list(merge_ranges([live], 2))
    error = caught.value
    assert (error.key, error.position, error.size) == (KEY, 1000 + len(batch()), len(batch()))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_range_that_ends_within_a_batch_is_refused(cut: int) -> None:
    live = replace(Source([batch()], 0).live(), data=bytearray(batch()[:-cut]))
    with pytest.raises(CorruptSegmentError):
        list(merge_ranges([live], 1))


@pytest.mark.parametrize(
    ("has_true_offsets", "next_offset"), [(False, 2), (False, 4), (True, 2), (True, 1)]
)
def test_offsets_that_contradict_the_extent_are_refused(
    has_true_offsets: bool, next_offset: int
) -> None:
    source = Source([batch(3)], 0, has_true_offsets)
    with pytest.raises(CorruptSegmentError, match="end at offset 3"):
        list(merge_ranges([replace(source.live(), next_offset=next_offset)], 10))


def test_a_range_without_batches_is_refused() -> None:
    with pytest.raises(CorruptSegmentError, match="end at offset 7"):
        list(merge_ranges([LiveRange(KEY, 0, bytearray(), 7, 8, False)], 8))


@pytest.mark.parametrize("options", [MergeOptions(), MergeOptions(delete_horizon=5)])
def test_records_that_cannot_be_read_are_damage(options: MergeOptions) -> None:
    """They were stored with a correct checksum, but the error still names the batch."""
    broken = bytearray(batch(2))
    broken[57:61] = (3).to_bytes(4, "big")
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    with pytest.raises(CorruptSegmentError, match="the records end inside a varint") as caught:
        merge([Source([batch(), bytes(broken), batch()], 0)], options=options)
    error = caught.value
    assert (error.key, error.position, error.size) == (KEY, 1000 + len(batch()), len(broken))


@pytest.mark.parametrize("bounds", [(0, 1), (2, 2), (3, 2), (4, 11)])
def test_ranges_out_of_order_are_refused(bounds: tuple[int, int]) -> None:
    live = [
        Source([batch(2)], 0).live(),
        replace(Source([batch()], 0).live(), base_offset=bounds[0], next_offset=bounds[1]),
    ]
    with pytest.raises(ValueError, match="does not lie in"):
        list(merge_ranges(live, 10))


@settings(deadline=None)
@given(
    extents(),
    st.sampled_from([62, 150, 10_000]),
    st.sampled_from([100, 400, 10_000]),
    st.sampled_from([None, *Codec]),
    st.data(),
)
def test_a_merge_that_drops_and_recodes(
    sources: list[Source],
    pass_through_size: int,
    batch_size: int,
    codec: Codec | None,
    data: st.DataObject,
) -> None:
    """S14, S19: the remaining records are unchanged, whatever codec their batch is given."""
    records = naively(sources)
    dropped = array("q", (r.offset for r, _ in records if data.draw(st.booleans())))
    end = (sources[-1].next_offset if sources else 0) + 17
    options = MergeOptions(pass_through_size=pass_through_size, batch_size=batch_size, codec=codec)
    live = (replace(source.live(), dropped=dropped) for source in sources)
    runs = list(merge_ranges(live, end, options))
    assert read(runs) == [one for one in records if one[0].offset not in dropped]
    check_runs(runs, end, RUN_SIZE)
    headers = [BatchHeader.parse(found) for run in runs for found in run.batches]
    assert codec is None or {header.codec for header in headers} <= {codec}


def test_only_a_batch_with_a_dropped_record_is_rewritten() -> None:
    """S20: its neighbours' bytes are unchanged."""
    large = [batch(3, value=b"%d" % i * 30_000, producer=(7, 3)) for i in range(3)]
    live = replace(Source(large, 100).live(), dropped=array("q", [4, 104, 999]))
    (run,) = merge_ranges([live], 109)
    assert [
        bytes(found[16:]) == kept[16:] for found, kept in zip(run.batches, large, strict=True)
    ] == [True, False, True]
    assert [record.offset for record in records_of(joined(run))] == [
        100,
        101,
        102,
        103,
        105,
        106,
        107,
        108,
    ]


def test_only_a_batch_of_another_codec_is_recoded() -> None:
    large = [batch(3, value=b"xy" * 30_000, codec=codec) for codec in (Codec.LZ4, Codec.GZIP)]
    options = MergeOptions(pass_through_size=100, codec=Codec.LZ4, compression_level=9)
    (run,) = merge([Source(large, 0)], options=options)
    assert bytes(run.batches[0][16:]) == large[0][16:]
    assert BatchHeader.parse(run.batches[1]).codec is Codec.LZ4


def test_a_large_batch_that_is_recoded_is_split() -> None:
    large = batch(50, value=b"x" * 10_000, codec=Codec.GZIP)
    options = MergeOptions(codec=Codec.NONE, batch_size=100_000)
    runs = merge([Source([large], 0)], options=options)
    sizes = [len(found) for run in runs for found in run.batches]
    assert max(sizes) <= 100_000
    assert len(sizes) == 6


def test_nothing_left_of_the_records_is_no_run() -> None:
    live = replace(Source([batch(2)], 0).live(), dropped=array("q", [0, 1]))
    assert list(merge_ranges([live], 2)) == []


def cleaned(at: int) -> tuple[bytes, MergeOptions]:
    """Return a batch with a tombstone as it is after cleaning at time `at`, and the cleaning parameters."""
    source = Source([batch(2, value=None), batch(2)], 0)
    options = MergeOptions(delete_horizon=at)
    (run,) = merge([source], options=options)
    (found,) = run.batches
    return bytes(found), options


def test_kip_534_a_tombstone_gets_its_horizon_once() -> None:
    """The first cleaning sets it, and neither a later cleaning nor a plain merge changes it."""
    first, _ = cleaned(at=5000)
    header = BatchHeader.parse(first)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, 5000)
    other = batch(2, value=b"v")
    for options in (MergeOptions(delete_horizon=9000), MergeOptions()):
        again = LiveRange(KEY, 0, bytearray(first), 0, 4, True)
        (run,) = merge_ranges([again, Source([other], 4).live()], 6, options)
        (found,) = run.batches
        header = BatchHeader.parse(found)
        assert (header.has_delete_horizon, header.base_timestamp) == (True, 5000)
        assert [record.timestamp for record in records_of(found)] == [1000, 1001] * 3


def test_kip_534_horizons_are_not_mixed() -> None:
    first, _ = cleaned(at=5000)
    later = LiveRange(KEY, 0, bytearray(first), 0, 4, True)
    (run,) = merge_ranges(
        [later, Source([batch(value=None)], 4).live()], 5, MergeOptions(delete_horizon=9000)
    )
    headers = [BatchHeader.parse(found) for found in run.batches]
    assert [(h.has_delete_horizon, h.base_timestamp) for h in headers] == [
        (True, 5000),
        (True, 9000),
    ]


def test_kip_534_a_large_batch_is_looked_into() -> None:
    """A batch without a tombstone is kept as it is, and one with a tombstone is rewritten to set its horizon."""
    without, holds = batch(value=b"x" * 70_000), batch(3, value=None)
    options = MergeOptions(delete_horizon=9000, pass_through_size=62)
    (run,) = merge([Source([without, holds], 0)], options=options)
    assert bytes(run.batches[0][16:]) == without[16:]
    assert BatchHeader.parse(run.batches[1]).base_timestamp == 9000
    assert [record.value for record in records_of(run.batches[1])] == [None] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size 0"),
        ({"batch_size": 2**26 + 1}, "readers refuse to decompress more"),
        ({"compression_level": 3}, "needs a codec"),
        ({"compression_level": 13, "codec": Codec.LZ4}, "13 is not"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MergeOptions(**options)  # type: ignore[arg-type]
