"""Compares a reader's lag with a walk over the fates of all offsets."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.behind import Behind, behind
from lacuna.controlplane.shared.log.fates import Fate, fates

#: Of each extent: the hole before it, how many offsets it has, whether it is dead.
extents_of_a_log = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=12
)


class Log(NamedTuple):
    extents: ExtentTable
    dead: DeadRanges
    log_start_offset: int
    last_stable_offset: int


def log_of(described: list[tuple[int, int, bool]]) -> tuple[ExtentTable, DeadRanges, int]:
    extents, dead, end = ExtentTable(), DeadRanges(), 0
    for number, (hole, count, is_dead) in enumerate(described):
        first, end = end + hole, end + hole + count
        extents.append_row((1, number, 0, 100, first, end, 1000 + number, -1, -1, 0, 0))
        if is_dead:
            dead.add(first, end)
    return extents, dead, end


@given(described=extents_of_a_log, position=st.integers(0, 60), stable=st.integers(0, 12))
def test_it_is_what_will_be_delivered(
    described: list[tuple[int, int, bool]], position: int, stable: int
) -> None:
    extents, dead, end = log_of(described)
    last_stable_offset = ([*extents.base_offsets, end])[min(stable, len(extents))]
    left = [
        (max(each.first_offset, position), each.next_offset, each.extent)
        for each in fates(extents, dead, position, last_stable_offset, last_stable_offset)
        if each.fate is Fate.DELIVERED
    ]
    found = behind(Log(extents, dead, 0, last_stable_offset), position)
    assert found.offsets == sum(end - first for first, end, _ in left)
    assert found.timestamp_ms == (1000 + left[0][2] if left else -1)


def test_what_expired_and_what_is_beyond_a_limit_is_not_left() -> None:
    extents, dead, end = log_of([(0, 4, False)] * 3)
    log = Log(extents, dead, 4, end)
    assert behind(log, 0).offsets == 8
    assert behind(log, 0, 8).offsets == 4


def test_time_counts_only_while_something_is_left() -> None:
    assert Behind().seconds(5_000) == 0.0
    assert Behind(3, 4_000).seconds(5_500) == 1.5
    assert Behind(3, 9_000).seconds(5_500) == 0.0  # a producer's clock that is ahead
