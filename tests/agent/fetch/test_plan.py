"""The planner, compared with a naive reader of the same log (S13-S18)."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.fetch.explain import explain
from lacuna.agent.fetch.plan import plan_fetch
from lacuna.controlplane.shared.extents import COLUMNS, DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.controlplane.shared.log.pieces import Pieces
from lacuna.controlplane.v1.log_pb2 import Extents

KEY = (b"topic", 0)
COMMITTED, ABORTED, OPEN, REMOVED = "committed", "aborted", "open", "removed"


@dataclass(frozen=True)
class Run:
    """A run of batches: offsets, bytes, and the outcome of its transaction."""

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
