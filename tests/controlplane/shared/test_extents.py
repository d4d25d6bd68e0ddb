"""Compares extents and dead ranges in columns with plain sets of offsets."""

import struct
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import (
    COLUMNS,
    EXTENT_ROW,
    DeadRanges,
    ExtentTable,
    extent_rows,
)
from lacuna.controlplane.v1.log_pb2 import Extents


def _extents(*ranges: tuple[int, int]) -> Extents:
    columns: dict[str, list[int]] = {name: [1] * len(ranges) for name in COLUMNS}
    columns["base_offsets"] = [first for first, _ in ranges]
    columns["next_offsets"] = [end for _, end in ranges]
    return Extents(**columns)


def _table(*ranges: tuple[int, int]) -> ExtentTable:
    table = ExtentTable()
    table.append(_extents(*ranges))
    return table


def _ranges(table: ExtentTable) -> list[tuple[int, int]]:
    assert len({len(getattr(table, name)) for name in COLUMNS}) == 1
    return list(zip(table.base_offsets, table.next_offsets, strict=True))


def test_columns_are_the_fields_of_the_message() -> None:
    assert [field.name for field in Extents.DESCRIPTOR.fields] == list(COLUMNS)


@pytest.mark.parametrize("more", [[(9, 12)], [(9, 12), (12, 13)]])
def test_append_refuses_an_overlap(more: list[tuple[int, int]]) -> None:
    table = _table((0, 5), (5, 10))
    with pytest.raises(ValueError, match="extent at offset 9 overlaps the end 10"):
        table.append(_extents(*more))
    assert _ranges(table) == [(0, 5), (5, 10)]


@pytest.mark.parametrize("more", [[], [(10, 12)], [(11, 12), (12, 13)]])
def test_append_adds_at_the_end(more: list[tuple[int, int]]) -> None:
    table = _table((0, 5), (5, 10))
    table.append(_extents(*more))
    assert _ranges(table) == [(0, 5), (5, 10), *more]
    assert table.slice(2, 99) == _extents(*more)


@pytest.mark.parametrize("more", [[(10, 12)], [(11, 12), (12, 13)]])
def test_rows_say_what_messages_say(more: list[tuple[int, int]]) -> None:
    table, same = _table((0, 5), (5, 10)), _table((0, 5), (5, 10))
    same.append(_extents(*more))
    for row in EXTENT_ROW.iter_unpack(extent_rows(_extents(*more))):
        table.append_row(row)
    assert table.slice(0, 9) == same.slice(0, 9)
    with pytest.raises(ValueError, match="extent at offset 11 overlaps the end 1"):
        table.append_row(EXTENT_ROW.unpack(extent_rows(_extents((11, 99)))))


def test_columns_hold_a_whole_table() -> None:
    table = _table((0, 5), (5, 10), (20, 25))
    table.producer_epochs[1] = -1
    columns = table.columns()
    assert columns.base_offsets == struct.pack("<qqq", 0, 5, 20)
    assert columns.producer_epochs == struct.pack("<hhh", 1, -1, 1)
    assert ExtentTable.from_columns(columns).slice(0, 9) == table.slice(0, 9)


def test_finding_replacing_and_dropping_with_holes() -> None:
    table = _table((0, 5), (5, 10), (20, 25))
    assert [table.first_ending_after(offset) for offset in (0, 4, 5, 10, 19, 24, 25)] == [
        0,
        0,
        1,
        2,
        2,
        2,
        3,
    ]
    assert [table.first_at_or_after(offset) for offset in (0, 1, 5, 11, 20, 21)] == [
        0,
        1,
        1,
        2,
        2,
        3,
    ]
    assert table.range_of(5, 21) == (1, 3)
    assert table.range_of(21, 5) == (3, 3)
    table.replace(0, 10, _extents((2, 8)))
    assert _ranges(table) == [(2, 8), (20, 25)]
    table.replace(10, 20, _extents((12, 14), (15, 16)))
    assert _ranges(table) == [(2, 8), (12, 14), (15, 16), (20, 25)]
    table.drop_below(14)
    assert _ranges(table) == [(15, 16), (20, 25)]
    table.drop_below(15)


@given(st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(0, 60), unique=True))
def test_s18_many_ranges_at_once_are_the_same_as_one_by_one(
    before: list[int], edges: list[int]
) -> None:
    one_by_one, at_once = DeadRanges(), DeadRanges()
    for first, end in _pairs(before):
        one_by_one.add(first, end)
        at_once.add(first, end)
    for first, end in _pairs(edges):
        one_by_one.add(first, end)
    at_once.add_all(array("q", sorted(edges)[: len(edges) // 2 * 2]))
    assert (at_once.firsts, at_once.ends) == (one_by_one.firsts, one_by_one.ends)


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    ordered = sorted(edges)
    return list(zip(ordered[::2], ordered[1::2], strict=False))


OFFSETS = st.integers(0, 40)
RANGES = st.tuples(OFFSETS, OFFSETS).filter(lambda edges: edges[0] < edges[1])
STEPS = st.lists(st.tuples(st.booleans(), RANGES), max_size=20)


@given(STEPS, RANGES)
def test_s18_dead_ranges_equal_a_set_of_offsets(
    steps: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    dead, model = DeadRanges(), set[int]()
    for is_added, (first, end) in steps:
        if is_added:
            dead.add(first, end)
            model |= set(range(first, end))
        else:
            dead.remove(first, end)
            model -= set(range(first, end))
    ranges = list(zip(dead.firsts, dead.ends, strict=True))
    assert len(dead) == len(ranges)
    assert {offset for first, end in ranges for offset in range(first, end)} == model
    assert all(end < first for (_, end), (first, _) in pairwise(ranges))
    for offset in range(42):
        following = offset
        while following in model:
            following += 1
        assert dead.skip(offset) == following
    assert dead.pairs() == b"".join(struct.pack("<qq", *each) for each in ranges)
    for again in (DeadRanges.from_pairs(dead.pairs()), DeadRanges()):
        again.add_pairs(dead.pairs())
        assert (again.firsts, again.ends) == (dead.firsts, dead.ends)
    first, end = asked
    met = [each for each in ranges if each[0] < end and first < each[1]]
    cut = [(max(first, start), min(end, stop)) for start, stop in met]
    found = dead.within(first, end)
    assert list(zip(found.firsts, found.ends, strict=True)) == cut


def pairs_of(dead: DeadRanges) -> list[tuple[int, int]]:
    return list(zip(dead.firsts, dead.ends, strict=True))


def test_s18_a_dead_range_over_an_edge_stays_whole() -> None:
    dead = DeadRanges()
    for first, end in [(0, 3), (5, 9), (12, 20)]:
        dead.add(first, end)
    dead.drop_below(8)
    assert pairs_of(dead) == [(5, 9), (12, 20)]
    dead.drop_below(9)
    assert pairs_of(dead) == [(12, 20)]
