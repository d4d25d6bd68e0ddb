"""Tests that each invariant check detects a violation. The tests alter the state, since no command leads there."""

from array import array

import pytest

from lacuna.controlplane.shared.extents import EXTENT_ROW, ExtentTable
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.state.segments import References, SegmentTable
from lacuna.controlplane.v1.journal_pb2 import LogStartMove, LogStartsMoved
from lacuna.controlplane.v1.log_pb2 import Extents
from lacuna.controlplane.verbs.housekeeping import replay_log_starts_moved
from tests.controlplane.verbs.cluster import Cluster


def _written(count: int = 10) -> Cluster:
    cluster = Cluster()
    cluster.create("a")
    cluster.put("a-0", count)
    return cluster


def _move(cluster: Cluster, offset: int) -> None:
    move = LogStartMove(partition=cluster.partition("a-0"), log_start_offset=offset)
    replay_log_starts_moved(cluster.state, LogStartsMoved(moves=[move]), cluster.now_ms)


@pytest.mark.parametrize("offset", [4, 11])
def test_a_log_start_does_not_go_back_or_beyond_the_end(offset: int) -> None:
    cluster = _written()
    _move(cluster, 5)
    with pytest.raises(InvariantBroken, match="the log start would move from 5"):
        _move(cluster, offset)


def test_the_front_does_not_go_silently() -> None:
    cluster = _written()
    cluster.put("a-0")
    cluster.found("a-0").extents.drop_below(10)
    with pytest.raises(InvariantBroken, match="the log begins at 10"):
        _move(cluster, 1)


def test_a_segment_does_not_lose_more_extents_than_it_has() -> None:
    table = SegmentTable()
    table.add((1, 1), 100, 1, 0)
    with pytest.raises(InvariantBroken, match="would lose 2 extents but has only 1"):
        table.release([References(array("q", (1, 1)), array("q", (1, 1)))], 0)


def _table(*ranges: tuple[int, int]) -> ExtentTable:
    table = ExtentTable()
    for base_offset, next_offset in ranges:
        table.append_row(EXTENT_ROW.unpack(_row(base_offset, next_offset)))
    return table


def _row(base_offset: int, next_offset: int, size: int = 100) -> bytes:
    return EXTENT_ROW.pack(1, 1, 0, size, base_offset, next_offset, 7, -1, -1, 0, 0)


@pytest.mark.parametrize("row", [_row(9, 11), _row(10, 10), _row(10, 11, 0)])
def test_an_extent_follows_the_one_before_and_is_not_empty(row: bytes) -> None:
    with pytest.raises(InvariantBroken):
        _table((0, 10)).append_row(EXTENT_ROW.unpack(row))


def test_extents_follow_those_before() -> None:
    with pytest.raises(InvariantBroken, match="overlaps the end 10"):
        _table((0, 10)).append(_table((9, 11)).slice(0, 1))


@pytest.mark.parametrize("new", [_table((9, 15)), _table((15, 21))])
def test_what_replaces_extents_fits_between_their_neighbours(new: ExtentTable) -> None:
    extents: Extents = new.slice(0, 1)
    with pytest.raises(InvariantBroken, match="overlaps the one"):
        _table((0, 10), (10, 20), (20, 30)).replace(10, 20, extents)
