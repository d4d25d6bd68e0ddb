"""Tests the loops that each fetch runs over extents, in both forms, against plain lists."""

from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forms import FORMS, compiled, interpreted

CHOOSING = "lacuna.controlplane.shared.log.choosing"


@pytest.fixture(scope="session", params=FORMS)
def choosing(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.controlplane.shared.log.choosing`, interpreted and compiled."""
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
    """A hundred thousand dead extents lie between two live ones."""
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
