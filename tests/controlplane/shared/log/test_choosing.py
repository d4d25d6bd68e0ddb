"""Tests the loops over extents for fetches and merge plans, in both forms, against plain lists."""

from array import array
from dataclasses import astuple, dataclass
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from lacuna.logstore.segments.hot import hot_lease
from tests.forms import FORMS, compiled, interpreted

CHOOSING = "lacuna.controlplane.shared.log.choosing"


@pytest.fixture(scope="session", params=FORMS)
def choosing(request: pytest.FixtureRequest) -> ModuleType:
    """Returns `lacuna.controlplane.shared.log.choosing`, interpreted and compiled."""
    return interpreted(CHOOSING) if request.param == "interpreted" else compiled(CHOOSING)


#: For each extent how many offsets it has, its bytes, whether it is dead, and how many offsets lie behind it.
extents = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 90), st.booleans(), st.sampled_from([0, 0, 2])),
    max_size=40,
)


@given(extents, st.integers(0, 5), st.integers(0, 9), st.integers(-50, 50), st.integers(-1, 900))
def test_live_extents_are_chosen_until_they_reach_the_limit(
    choosing: ModuleType,
    rows: list[tuple[int, int, bool, int]],
    start: int,
    left_out: int,
    before: int,
    max_bytes: int,
) -> None:
    bases, sizes = array("q"), array("q", [row[1] for row in rows])
    firsts, ends = array("q", [-9]), array("q", [-5])
    offset = 0
    for count, _, is_dead, hole in rows:
        bases.append(offset)
        if is_dead and ends[-1] == offset:
            ends[-1] = offset + count
        elif is_dead:
            firsts.append(offset)
            ends.append(offset + count)
        offset += count + hole
    stop = max(len(rows) - left_out, 0)
    expected: list[int] = []
    size = before
    live = [index for index in range(start, stop) if not rows[index][2]]
    while live and (not expected or size < max_bytes):
        expected.append(live.pop(0))
        size += sizes[expected[-1]]
    following = live[0] if live else max(start, stop)
    found = choosing.choose_live(bases, sizes, firsts, ends, start, stop, before, max_bytes)
    assert found == (array("q", expected), size, following)


def test_s18_however_many_extents_are_dead_they_are_bisected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are a hundred thousand dead extents between two live ones."""
    module, count, looked = interpreted(CHOOSING), 100_000, 0

    class Counting:
        def __init__(self, column: "array[int]") -> None:
            self.column = column

        def __getitem__(self, index: int) -> int:
            nonlocal looked
            looked += 1
            return self.column[index]

        def __setitem__(self, index: int, value: int) -> None:
            self.column[index] = value

    monkeypatch.setattr(module, "memoryview", Counting, raising=False)
    bases, sizes = array("q", range(count)), array("q", [1]) * count
    firsts, ends = array("q", [1]), array("q", [count - 1])
    found = module.choose_live(bases, sizes, firsts, ends, 0, count, 0, 1000)
    assert found == (array("q", [0, count - 1]), 2, count)
    assert looked < 200


@pytest.mark.parametrize(("start", "stop", "ends"), [(-1, 1, [9]), (0, 3, [9]), (0, 1, [])])
def test_extents_that_are_not_there_are_not_looked_at(
    choosing: ModuleType, start: int, stop: int, ends: list[int]
) -> None:
    column = array("q", [1, 2])
    with pytest.raises(ValueError, match="too short"):
        choosing.choose_live(column, column, array("q", [5]), array("q", ends), start, stop, 0, 10)


#: For each extent its bytes, and whether it is dead, hot and merged.
mergeable = st.lists(
    st.tuples(st.integers(1, 30), st.booleans(), st.booleans(), st.booleans()), max_size=30
)


@given(mergeable, st.integers(0, 4), st.integers(0, 9), st.integers(1, 40))
def test_what_merging_sees_in_extents(
    choosing: ModuleType,
    rows: list[tuple[int, bool, bool, bool]],
    start: int,
    left_out: int,
    small_bytes: int,
) -> None:
    table, dead = ExtentTable(), DeadRanges()
    expected = []
    for offset, (size, is_dead, is_hot, is_merged) in enumerate(rows):
        lease_id = hot_lease(1) if is_hot else 1
        flags = FLAG_TRUE_OFFSETS if is_merged else 0
        table.append_row((lease_id, 1, 0, size, offset, offset + 1, 0, -1, -1, 0, flags))
        if is_dead:
            dead.add(offset, offset + 1)
        small = choosing.MERGED if is_merged else choosing.SMALL
        is_small = size * (2 if is_merged else 1) < small_bytes
        live = choosing.HOT if is_hot else small if is_small else choosing.LARGE
        expected.append(choosing.DEAD if is_dead else live)
    stop = max(start, len(rows) - left_out)
    start = min(start, stop, len(rows))
    stop = min(stop, len(rows))
    kinds = choosing.kinds_of(table, dead, start, stop, small_bytes)
    assert list(kinds) == expected[start:stop]
    with pytest.raises(ValueError, match="too short"):
        choosing.kinds_of(table, dead, 0, len(rows) + 1, small_bytes)


LARGE, DEAD, HOT, SMALL, MERGED = range(5)


@dataclass(frozen=True)
class Limits:
    least: int
    most: int
    max_bytes: int
    keeps_dead: bool

    def run_of(self, rows: list[tuple[int, int]], first: int) -> int:
        """Return where the run that begins at row `first` ends."""
        for last in range(first, len(rows)):
            before = sum(size for kind, size in rows[first:last] if kind != DEAD)
            kind, size = rows[last]
            if (
                kind == LARGE
                or (kind == DEAD and self.keeps_dead)
                or last - first >= self.most
                or before + (0 if kind == DEAD else size) > self.max_bytes
            ):
                return last
        return len(rows)

    def found_in(self, rows: list[tuple[int, int]]) -> tuple[int, int]:
        """Return the first run that is worth merging."""
        first = 0
        while first < len(rows):
            last = self.run_of(rows, first)
            kinds = [kind for kind, _ in rows[first:last]]
            if DEAD in kinds or last - first >= self.least:
                kept = 0 if DEAD in kinds else self.least
                while last - first > kept and rows[first][0] == MERGED:
                    size, *others = [size for kind, size in rows[first:last] if kind != DEAD]
                    if size < sum(others):
                        break
                    first += 1
                return first, last
            if HOT in kinds:
                return first + kinds.index(HOT), last - kinds[::-1].index(HOT)
            first = last + 1
        return len(rows), len(rows)


@given(
    st.lists(st.tuples(st.integers(LARGE, MERGED), st.integers(1, 30)), max_size=30),
    st.builds(
        Limits,
        least=st.integers(1, 6),
        most=st.integers(1, 12),
        max_bytes=st.integers(1, 200),
        keeps_dead=st.booleans(),
    ),
)
def test_the_first_run_that_is_worth_merging(
    choosing: ModuleType, rows: list[tuple[int, int]], limits: Limits
) -> None:
    kinds = array("B", [kind for kind, _ in rows])
    sizes = array("q", [size for _, size in rows])
    assert choosing.find_run(kinds, sizes, *astuple(limits)) == limits.found_in(rows)
    with pytest.raises(ValueError, match="too short"):
        choosing.find_run(kinds, sizes + sizes + array("q", [1]), *astuple(limits))


rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=9)


@given(rows, rows, st.integers(0, 4), st.integers(0, 4))
def test_what_is_common_ends_at_the_first_row_that_differs(
    choosing: ModuleType,
    mine: list[tuple[int, int]],
    theirs: list[tuple[int, int]],
    first: int,
    index: int,
) -> None:
    count = max(min(len(mine) - first, len(theirs) - index), 0)
    first, index = min(first, len(mine)), min(index, len(theirs))
    pairs = zip(mine[first:], theirs[index:], strict=False)
    expected = next((at for at, (one, other) in enumerate(pairs) if one != other), count)
    columns = [
        (array("q", [row[0] for row in each]), array("B", [row[1] for row in each]))
        for each in (mine, theirs)
    ]
    assert choosing.count_common(columns[0], first, columns[1], index, count) == expected
    assert choosing.count_common(columns[0], first, columns[1], index, 0) == 0


@pytest.mark.parametrize(("first", "index", "count"), [(0, 0, 3), (1, 0, 2), (0, 2, 1), (-1, 0, 1)])
def test_rows_that_are_not_there_are_not_compared(
    choosing: ModuleType, first: int, index: int, count: int
) -> None:
    column = (array("q", [1, 2]),)
    with pytest.raises(ValueError, match="too short"):
        choosing.count_common(column, first, column, index, count)
    with pytest.raises(ValueError, match="more columns"):
        choosing.count_common(column, 0, (), 0, 0)
