"""Compares reading a log with a naive reader that goes extent by extent and offset by offset."""

from array import array
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.fates import Fate, fates
from lacuna.controlplane.shared.log.live import (
    dead_slices,
    is_dead,
    late_extents,
    live_mask,
    live_slices,
    runs,
)
from lacuna.controlplane.shared.log.pieces import Piece, Pieces, all_pieces, piece_at
from lacuna.controlplane.shared.log.reads import ReadFailure, failure_of, plan_reads
from lacuna.logstore.objects.store import (
    ObjectNotFoundError,
    ObjectStoreError,
    ShortReadError,
    StoreUnavailableError,
)
from lacuna.logstore.segments.paths import key_in_lease

LIVE, DEAD, HOLE, DEAD_HOLE = "live", "dead", "hole", "dead hole"


def table_of(spans: list[tuple[int, int]]) -> ExtentTable:
    """Return extents with these offsets."""
    extents = ExtentTable()
    for base_offset, next_offset in spans:
        offsets = {"base_offsets": base_offset, "next_offsets": next_offset}
        row = dict.fromkeys(COLUMNS, 0) | {"sizes": 1} | offsets
        extents.append_row(list(row.values()))
    return extents


@st.composite
def logs(draw: st.DrawFn) -> tuple[ExtentTable, DeadRanges, int]:
    """Draws extents, dead ranges (with and without extents), and an end offset."""
    spans, dead, offset = [], DeadRanges(), draw(st.integers(0, 3))
    for kind in draw(st.lists(st.sampled_from([LIVE, DEAD, DEAD, HOLE, DEAD_HOLE]), max_size=25)):
        end = offset + draw(st.integers(1, 4))
        if kind in (LIVE, DEAD):
            spans.append((offset, end))
        if kind in (DEAD, DEAD_HOLE):
            dead.add(offset, end)
        offset = end
    return table_of(spans), dead, offset


def dead_offsets(dead: DeadRanges) -> set[int]:
    """Return every offset that a range covers."""
    pairs = zip(dead.firsts, dead.ends, strict=True)
    return {offset for first, end in pairs for offset in range(first, end)}


@given(logs(), st.data())
def test_runs_are_those_that_a_look_at_every_extent_finds(
    log: tuple[ExtentTable, DeadRanges, int], data: st.DataObject
) -> None:
    extents, dead, _ = log
    stop = data.draw(st.integers(0, len(extents)))
    start = data.draw(st.integers(0, stop))
    gone = dead_offsets(dead)
    expected = [extents.base_offsets[index] not in gone for index in range(start, stop)]
    assert list(live_mask(extents, dead, start, stop)) == expected
    found = list(runs(extents, dead, start, stop))
    assert [live for first, end, live in found for _ in range(first, end)] == expected
    assert [index for first, end, _ in found for index in range(first, end)] == list(
        range(start, stop)
    )
    assert list(live_slices(extents, dead, start, stop)) == [run[:2] for run in found if run[2]]
    assert list(dead_slices(extents, dead, start, stop)) == [run[:2] for run in found if not run[2]]
    whole = [(start, stop)] if start < stop else []
    assert list(live_slices(extents, None, start, stop)) == whole
    for index in range(start, stop):
        assert is_dead(dead, extents.base_offsets[index]) != expected[index - start]
        assert not is_dead(None, extents.base_offsets[index])


@given(logs(), st.integers(0, 4), st.data())
def test_late_extents_are_the_live_ones_with_such_a_timestamp(
    log: tuple[ExtentTable, DeadRanges, int], timestamp: int, data: st.DataObject
) -> None:
    extents, dead, _ = log
    extents.max_timestamps[:] = array(
        "q", data.draw(st.lists(st.integers(-1, 4), min_size=len(extents), max_size=len(extents)))
    )
    stop = data.draw(st.integers(0, len(extents)))
    start = data.draw(st.integers(0, stop))
    expected = [
        index
        for first, end in live_slices(extents, dead, start, stop)
        for index in range(first, end)
        if extents.max_timestamps[index] >= timestamp
    ]
    assert list(late_extents(extents, dead, start, stop, timestamp)) == expected


@given(logs(), st.data())
def test_fates_cover_every_offset_once(
    log: tuple[ExtentTable, DeadRanges, int], data: st.DataObject
) -> None:
    extents, dead, log_end = log
    edges = st.integers(0, log_end)
    first, end = sorted((data.draw(edges), data.draw(edges)))
    stable = data.draw(st.sampled_from([*extents.base_offsets, log_end]))
    gone = dead_offsets(dead)
    expected = dict.fromkeys(range(first, end), Fate.HOLE)
    for base_offset, next_offset in zip(extents.base_offsets, extents.next_offsets, strict=True):
        fate = Fate.UNDECIDED if base_offset >= stable else Fate.DELIVERED
        fate = Fate.DROPPED if base_offset in gone else fate
        expected.update(dict.fromkeys(range(max(first, base_offset), min(end, next_offset)), fate))
    found: dict[int, Fate] = {}
    for each in fates(extents, dead, first, end, stable):
        some = range(max(first, each.first_offset), min(end, each.next_offset))
        assert not set(some) & found.keys()
        found.update(dict.fromkeys(some, each.fate))
        if each.fate is not Fate.HOLE:
            assert extents.base_offsets[each.extent] == each.first_offset
            assert extents.next_offsets[each.extent] == each.next_offset
    assert found == expected


class Counting(list[int]):
    """A column that counts accesses."""

    looks = 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("aborted", [1, 100_000])
def test_a_dead_range_is_jumped_however_many_extents_are_in_it(aborted: int) -> None:
    extents = table_of([])
    extents.base_offsets = Counting(range(aborted + 1))  # type: ignore[assignment]
    extents.next_offsets = array("q", range(1, aborted + 2))
    dead = DeadRanges()
    dead.add(0, aborted)
    assert list(live_slices(extents, dead, 0, aborted + 1)) == [(aborted, aborted + 1)]
    assert extents.base_offsets.looks < 30  # type: ignore[attr-defined]


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Draws pieces of a few objects, with and without gaps between them."""
    found, positions = [], {1: 0, 2: 0}
    for offset in range(draw(st.integers(0, 20))):
        sequence = draw(st.sampled_from([1, 1, 2]))
        position = positions[sequence] + draw(st.sampled_from([0, 0, 5, 20]))
        size = draw(st.integers(1, 30))
        found.append(Piece(7, sequence, position, size, offset, offset + 1, 0))
        positions[sequence] = position + size
    return found


def naive_groups(found: list[Piece], gap: int, most: int) -> Iterator[list[int]]:
    """Apply the rule for grouping pair by pair."""
    group: list[int] = []
    for index, piece in enumerate(found):
        if group:
            first, last = found[group[0]], found[group[-1]]
            between = piece.position - last.position - last.size
            whole = piece.position + piece.size - first.position
            if piece.segment != last.segment or not 0 <= between <= gap or whole > most:
                yield group
                group = []
        group.append(index)
    if group:
        yield group


@given(pieces(), st.sampled_from([0, 5, 100]), st.sampled_from([1, 40, 1000]))
def test_neighbours_in_an_object_are_one_read(found: list[Piece], gap: int, most: int) -> None:
    starts = [1000 + sum(piece.size for piece in found[:i]) for i in range(len(found))]
    reads = plan_reads(
        Pieces.of(found),
        array("q", starts),
        array("q", range(len(found))),
        partial(key_in_lease, "c"),
        read_gap=gap,
        max_read_bytes=most,
    )
    groups = [list(range(begin, end)) for begin, end in pairwise(reads.firsts)]
    assert groups == list(naive_groups(found, gap, most))
    for read, group in zip(reads, groups, strict=True):
        inside = [(found[i].position, found[i].size, starts[i]) for i in group]
        assert list(read.parts) == inside
        assert read.key == found[group[0]].key("c")
        assert read.position == inside[0][0]
        assert read.position + read.size == inside[-1][0] + inside[-1][1]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ObjectNotFoundError("k"), ReadFailure.GONE),
        (ShortReadError("k", 0, 10, 5), ReadFailure.DAMAGED),
        (StoreUnavailableError("the store is away"), ReadFailure.UNAVAILABLE),
    ],
)
def test_a_store_error_says_what_became_of_the_pieces(
    error: ObjectStoreError, failure: ReadFailure
) -> None:
    assert failure_of(error) is failure


def test_all_pieces_are_those_of_each_index() -> None:
    extents = table_of([(0, 2), (2, 5), (9, 10)])
    assert list(all_pieces(extents)) == [piece_at(extents, index) for index in range(3)]
    assert list(all_pieces(extents.slice(0, 3))) == list(all_pieces(extents))
