"""Tests that written slices and blocks are read back unchanged."""

import itertools

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.objects import MemoryStore
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.segments import (
    SegmentSlice,
    SliceInput,
    open_segment,
)
from lacuna.logstore.segments.layout import MAX_BLOCK_SIZE, TRAILER_SIZE
from lacuna.logstore.segments.reader import TAIL_SIZE
from tests.logstore.segments.samples import (
    CLUSTER_ID,
    KEY,
    OTHER_TOPIC_ID,
    SEGMENT_ID,
    TOPIC_ID,
    batch,
    batches,
    check_segment,
    segment,
    slice_of,
    small_segment,
)

partitions = st.tuples(st.sampled_from([TOPIC_ID, OTHER_TOPIC_ID]), st.integers(0, 2**31 - 1))


def stored(data: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put(KEY, [data])
    return store


def block_sizes(found: SegmentSlice) -> list[int]:
    edges = found.block_positions
    return [end - start for start, end in itertools.pairwise(edges)]


@given(
    st.dictionaries(partitions, st.lists(batches, min_size=1, max_size=8), min_size=1, max_size=4)
)
def test_a_segment_goes_both_ways(content: dict[tuple[bytes, int], list[bytes]]) -> None:
    written, data = segment(*(SliceInput(*name, found) for name, found in content.items()))
    assert written.size == len(data)
    footer = open_segment(stored(data), KEY)
    assert footer == check_segment(KEY, data)
    assert (footer.identity.cluster_id, footer.identity.segment_id) == (CLUSTER_ID, SEGMENT_ID)
    assert len(footer.slices) == len(content)
    for found, told, (name, inputs) in zip(
        footer.slices, written.slices, content.items(), strict=True
    ):
        assert (found.topic_id, found.partition) == (told.topic_id, told.partition) == name
        assert (found.position, found.size) == (told.position, told.size)
        read = [
            data[position : position + size]
            for position, size in zip(told.batch_positions, told.batch_sizes, strict=True)
        ]
        assert read == inputs
        check_blocks(found, data)


def check_blocks(found: SegmentSlice, data: bytes) -> None:
    """Check that blocks contain whole batches of at most one transactional producer, and are indexed correctly."""
    next_offset = 0
    for block, start in enumerate(found.block_positions[:-1]):
        view = data[start : found.block_positions[block + 1]]
        assert crc32c(view) == found.block_crcs[block]
        headers = [each.header for each in read_batches(view)]
        owners = {
            (header.producer_id, header.producer_epoch) if header.is_transactional else None
            for header in headers
        }
        assert len(owners) == 1
        assert found.block_offsets[block] == next_offset
        next_offset += sum(header.last_offset_delta + 1 for header in headers)
    assert found.block_offsets[-1] == next_offset


def test_no_payload_is_copied() -> None:
    inputs = [batch(value=b"x" * 1000), batch(value=b"y" * 1000)]
    written, _ = segment(slice_of(inputs))
    assert written.parts[1] is inputs[0]
    assert written.parts[2] is inputs[1]


def test_a_block_ends_where_the_transactional_producer_changes() -> None:
    """S18: a fetch skips aborted batches in whole blocks."""
    first, second = batch(producer=(7, 0)), batch(producer=(7, 1))
    plain = batch()
    _, data = segment(slice_of([plain, plain, first, first, second, plain, plain, first]))
    (found,) = check_segment(KEY, data).slices
    sizes = [2 * len(plain), 2 * len(first), len(second), 2 * len(plain), len(first)]
    assert block_sizes(found) == sizes


def test_a_block_is_at_most_256_kib_unless_it_is_one_batch() -> None:
    half, whole = batch(value=b"x" * (MAX_BLOCK_SIZE // 2 - 80)), batch(value=b"y" * MAX_BLOCK_SIZE)
    _, data = segment(slice_of([half, half, half, whole, half]))
    (found,) = check_segment(KEY, data).slices
    assert block_sizes(found) == [2 * len(half), len(half), len(whole), len(half)]
    assert 2 * len(half) <= MAX_BLOCK_SIZE


def test_true_offsets_keep_their_holes() -> None:
    first, second = batch(2, base_offset=10), batch(3, base_offset=2**40, producer=(1, 1))
    _, data = segment(slice_of([first, second]), has_true_offsets=True)
    footer = check_segment(KEY, data)
    assert footer.identity.has_true_offsets
    (found,) = footer.slices
    assert list(found.block_offsets) == [10, 2**40, 2**40 + 3]


@pytest.mark.slow
def test_a_footer_costs_one_read_and_a_wide_one_two() -> None:
    _, data = small_segment()
    store = stored(data)
    open_segment(store, KEY, len(data))
    assert (store.metrics.sizes, store.metrics.gets) == (0, 1)
    _, wide = segment(*(slice_of([batch(value=b"%d" % number)], number) for number in range(9000)))
    store = stored(wide)
    footer = open_segment(store, KEY)
    assert (store.metrics.sizes, store.metrics.gets) == (1, 2)
    assert store.metrics.bytes_read < len(wide) / 2
    assert store.metrics.bytes_read > TAIL_SIZE + TRAILER_SIZE
    assert [found.partition for found in footer.slices] == list(range(9000))


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([], "at least one slice"),
        ([slice_of([])], "is empty"),
        ([slice_of([batch()]), slice_of([batch()])], "occurs twice"),
        ([slice_of([batch()], 0, b"short")], "an invalid topic id"),
        ([slice_of([batch() + batch()])], "not one record batch"),
        ([slice_of([batch()[:-1]])], "not one record batch"),
        ([slice_of([b"x" * 60])], "not one record batch"),
    ],
)
def test_what_no_caller_may_hand_in_is_refused(slices: list[SliceInput], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment(*slices)


def test_true_offsets_must_ascend() -> None:
    with pytest.raises(ValueError, match="a batch begins at offset 11, before 12"):
        segment(slice_of([batch(2, base_offset=10), batch(base_offset=11)]), has_true_offsets=True)
