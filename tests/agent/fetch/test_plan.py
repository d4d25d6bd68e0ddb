"""The planner and the stretches of pieces, compared with naive readers of the same log (S13-S18)."""

import sys
from array import array
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.fetch.explain import explain
from lacuna.agent.fetch.plan import plan_fetch
from lacuna.agent.fetch.stretch import Load, Stretch
from lacuna.agent.fetch.stretches import Stretches
from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.controlplane.shared.log.pieces import NO_PIECES, Piece, Pieces
from lacuna.controlplane.v1.log_pb2 import Extents
from lacuna.logstore.records.layout import WalkedBatches

KEY = (b"topic", 0)
COMMITTED, ABORTED, OPEN, REMOVED = "committed", "aborted", "open", "removed"


@dataclass(frozen=True)
class Run:
    """A run of batches: their offsets and bytes, and the outcome of their transaction."""

    base_offset: int
    next_offset: int
    size: int
    outcome: str


@st.composite
def logs(draw: st.DrawFn) -> list[Run]:
    """Yield runs in order. Removed ones are holes, and open ones hold back the last stable offset."""
    outcomes = draw(
        st.lists(st.sampled_from([COMMITTED, ABORTED, ABORTED, OPEN, REMOVED]), max_size=30)
    )
    runs, offset = [], draw(st.integers(0, 5))
    for outcome in outcomes:
        count = draw(st.integers(1, 4))
        runs.append(Run(offset, offset + count, draw(st.integers(61, 400)), outcome))
        offset += count
    return runs


def build(runs: list[Run]) -> tuple[ExtentTable, DeadRanges, int, int]:
    """Return the extents, dead ranges, last stable offset and high watermark of a log."""
    extents, dead = ExtentTable(), DeadRanges()
    position = 0
    for number, run in enumerate(runs):
        if run.outcome == REMOVED:
            continue
        row = dict.fromkeys(COLUMNS, 0) | {
            "lease_ids": 1,
            "sequences": number // 4,
            "positions": position,
            "sizes": run.size,
            "base_offsets": run.base_offset,
            "next_offsets": run.next_offset,
        }
        position += run.size
        extents.append(Extents(**{name: [value] for name, value in row.items()}))
        if run.outcome == ABORTED:
            dead.add(run.base_offset, run.next_offset)
    high_watermark = runs[-1].next_offset if runs else 0
    opened = [run.base_offset for run in runs if run.outcome == OPEN]
    return extents, dead, min([*opened, high_watermark]), high_watermark


def naive(runs: list[Run], asked_offset: int, end_offset: int, is_committed: bool) -> list[Run]:
    """Read every run, and check the outcome of each."""
    seen = []
    for run in runs:
        is_live = run.outcome not in ((ABORTED, REMOVED) if is_committed else (REMOVED,))
        if is_live and run.next_offset > asked_offset and run.base_offset < end_offset:
            seen.append(run)
    return seen


def as_runs(pieces: Pieces) -> list[tuple[int, int, int]]:
    return [(piece.base_offset, piece.next_offset, piece.size) for piece in pieces]


@given(
    runs=logs(), asked=st.integers(0, 80), is_committed=st.booleans(), limit=st.integers(1, 2000)
)
def test_a_plan_is_a_prefix_of_what_the_naive_reader_sees(
    runs: list[Run], asked: int, is_committed: bool, limit: int
) -> None:
    extents, dead, last_stable_offset, high_watermark = build(runs)
    end = last_stable_offset if is_committed else high_watermark
    plan = plan_fetch(extents, dead if is_committed else None, asked, end, limit, KEY)
    expected = [
        (run.base_offset, run.next_offset, run.size)
        for run in naive(runs, asked, end, is_committed)
    ]
    got = as_runs(plan.pieces)
    assert got == expected[: len(got)]
    assert bool(got) == bool(expected)
    if len(got) < len(expected):
        assert plan.size >= limit
        assert plan.resume_offset == expected[len(got)][0]
    else:
        assert plan.resume_offset == end
    # The last piece was needed to reach the limit.
    assert sum(size for _, _, size in got[1:-1]) < limit


@given(runs=logs(), is_committed=st.booleans(), limit=st.integers(1, 600))
def test_following_plans_delivers_everything_once_and_ends_at_the_bound(
    runs: list[Run], is_committed: bool, limit: int
) -> None:
    """S14, S16, S17: the order and offsets of the remaining records never change, and a hole never stops a reader."""
    extents, dead, last_stable_offset, high_watermark = build(runs)
    end = last_stable_offset if is_committed else high_watermark
    offset, got, steps = 0, [], 0
    while offset < end:
        plan = plan_fetch(extents, dead if is_committed else None, offset, end, limit, KEY)
        got += as_runs(plan.pieces)
        assert plan.promise >= 1
        assert plan.resume_offset > offset
        offset = plan.resume_offset
        steps += 1
    expected = naive(runs, 0, end, is_committed)
    assert got == [(run.base_offset, run.next_offset, run.size) for run in expected]
    assert steps <= len(expected) + 1


@given(runs=logs(), first=st.integers(0, 40), length=st.integers(0, 80))
def test_explained_rows_cover_every_offset_with_the_fate_the_plan_gives_it(
    runs: list[Run], first: int, length: int
) -> None:
    extents, dead, last_stable_offset, high_watermark = build(runs)
    end = min(first + length, high_watermark)
    if end <= first:
        return
    rows = list(explain(extents, dead, first, end, last_stable_offset))
    fates = {}
    for row in rows:
        if row.fate is not Fate.FILLER:
            for offset in range(max(row.first_offset, first), min(row.next_offset, end)):
                assert offset not in fates
                fates[offset] = row.fate
    by_offset = {offset: run for run in runs for offset in range(run.base_offset, run.next_offset)}
    for offset in range(first, end):
        run = by_offset.get(offset)
        if run is None or run.outcome == REMOVED:
            assert fates[offset] is Fate.HOLE
        elif run.base_offset >= last_stable_offset:
            assert fates[offset] is Fate.UNDECIDED
        else:
            assert fates[offset] is (Fate.DROPPED if run.outcome == ABORTED else Fate.DELIVERED)
    live_end = max((row.next_offset for row in rows if row.fate is Fate.DELIVERED), default=first)
    fillers = [(row.first_offset, row.next_offset) for row in rows if row.fate is Fate.FILLER]
    bound = min(end, last_stable_offset)
    assert fillers == ([(live_end, bound)] if live_end < bound else [])


def test_what_is_undecided_is_explained_so_where_the_log_begins_within_it() -> None:
    extents, dead, *_ = build([Run(0, 10, 100, COMMITTED)])
    (row,) = explain(extents, dead, 5, 10, last_stable_offset=5)
    assert row.fate is Fate.UNDECIDED


NOTHING = WalkedBatches(array("q"), array("q"), array("q"), array("q"))


def piece(number: int, sequence: int = 0) -> Piece:
    """Return the number-th piece of a log whose pieces have three offsets each, followed by a one-offset hole."""
    return Piece(1, sequence, 10 * number, 10, 4 * number, 4 * number + 3, 0)


def stretch(numbers: list[int], partition: tuple[bytes, int] = KEY, sequence: int = 0) -> Stretch:
    pieces = Pieces.of([piece(number, sequence) for number in numbers])
    return Stretch(memoryview(b""), NOTHING, Load(0), partition, pieces)


numbers_in_order = st.sets(st.integers(0, 11), min_size=1, max_size=8).map(sorted)
steps = st.lists(st.tuples(numbers_in_order, st.booleans(), st.integers(0, 1)), max_size=12)


@given(steps)
def test_of_those_that_span_an_offset_the_last_one_counts(
    made: list[tuple[list[int], bool, int]],
) -> None:
    """It must contain that exact piece, not one with the same offsets elsewhere."""
    found_by = Stretches()
    put: list[Stretch] = []
    owner: dict[int, Stretch] = {}
    for numbers, is_dropped, sequence in made:
        if is_dropped and put:
            gone = put.pop(numbers[0] % len(put))
            found_by.drop(gone)
            owner = {offset: each for offset, each in owner.items() if each is not gone}
            continue
        put.append(stretch(numbers, sequence=sequence))
        found_by.put(put[-1])
        owner.update((offset, put[-1]) for offset in range(4 * numbers[0], 4 * numbers[-1] + 3))
    plan = Pieces.of([piece(number) for number in range(12)])
    for number in range(12):
        held = owner.get(4 * number)
        index = held.index_of(plan, number) if held is not None else None
        expected = None if held is None or index is None else (held, index)
        assert found_by.find(KEY, plan, number) == expected
        assert found_by.find((b"other", 0), plan, number) is None
        # A reader that looks only where something may be found misses nothing.
        following = found_by.next_after(KEY, 4 * number)
        for between in range(number + 1, 12):
            if 4 * between < following:
                assert found_by.find(KEY, plan, between) is None
    for each in put:
        found_by.drop(each)
    assert len(found_by) == 0
    assert found_by.next_after(KEY, 0) == sys.maxsize


@given(numbers_in_order, numbers_in_order, st.data())
def test_columns_are_like_lists_of_pieces(
    some: list[int], others: list[int], data: st.DataObject
) -> None:
    mine, theirs = [piece(number) for number in some], [piece(number) for number in others]
    pieces = Pieces.of(mine)
    assert list(pieces) == mine
    assert (pieces == Pieces.of(theirs)) == (mine == theirs)
    assert list(Pieces.joined([pieces, Pieces.of(theirs)])) == mine + theirs
    first, index = data.draw(st.integers(0, len(some))), data.draw(st.integers(0, len(others)))
    assert list(pieces[first:]) == mine[first:]
    indexes = data.draw(st.lists(st.integers(0, len(some) - 1)))
    assert list(pieces.take(array("q", indexes))) == [mine[at] for at in indexes]
    count = 0
    while (
        mine[first + count : first + count + 1] == theirs[index + count : index + count + 1] != []
    ):
        count += 1
    assert pieces.common(first, Pieces.of(theirs), index) == count
    assert list(NO_PIECES) == []
