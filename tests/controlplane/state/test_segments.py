"""Compares the segment table with plain dictionaries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.state import segments
from lacuna.controlplane.state.segments import References, SegmentTable

KEYS = st.tuples(st.integers(1, 2), st.integers(0, 6))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "release", "forget"]), KEYS), max_size=60)


@given(STEPS)
def test_rows_are_what_dictionaries_say(steps: list[tuple[str, tuple[int, int]]]) -> None:
    table, sizes, live = SegmentTable(), dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for now_ms, (step, key) in enumerate(steps):
        if step == "add" and key not in sizes:
            extents = now_ms % 3
            table.add(key, now_ms, extents, now_ms)
            sizes[key], live[key] = now_ms, extents
        elif step == "release" and live.get(key):
            table.release([References([key[0]], [key[1]])], now_ms)
            live[key] -= 1
        elif step == "forget":
            table.forget(key)
            if live.get(key) == 0:
                del sizes[key], live[key]
        assert [tuple(row) for row in table] == [(k, sizes[k], live[k]) for k in sorted(sizes)]
        assert len(table) == len(sizes)
        assert all(table.size_of(k) == sizes[k] for k in sizes)
        assert (key in table) == (key in sizes)
        again = SegmentTable()
        for rows in table.rows(2):
            again.add_rows(rows)
        assert [tuple(row) for row in again] == [tuple(row) for row in table]
        assert set(table.replaced) == {k for k in live if not live[k]}


def test_what_is_not_there_cannot_be_released_nor_added_twice() -> None:
    table = SegmentTable()
    table.add((1, 5), 10, 1, 0)
    for key in [(1, 4), (2, 5)]:
        with pytest.raises(KeyError):
            table.release([References([key[0]], [key[1]])], 0)
    with pytest.raises(ValueError, match="sequence 5 was already added"):
        table.add((1, 5), 10, 1, 0)
    table.release([References([1], [5])], 7)
    table.forget((1, 5))
    with pytest.raises(KeyError):
        table.size_of((1, 5))


def test_many_references_wait_and_are_released_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "RELEASED_AT_ONCE", 3)
    table = SegmentTable()
    for sequence in (1, 2):
        table.add((1, sequence), 10, 2, 0)
    table.release([References([1, 1], [1, 2]), References([1, 1], [1, 2])], 5)
    assert len(table.releasing) == 4
    assert not table.replaced, "what waits may not be collected"
    table.release_waiting(3, 6)
    assert (len(table.releasing), table.replaced) == (1, {(1, 2): 6})
    table.release_waiting(3, 7)
    assert (len(table.releasing), table.replaced) == (0, {(1, 2): 6, (1, 1): 7})
