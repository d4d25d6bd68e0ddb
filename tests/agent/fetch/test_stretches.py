"""The stretch found for a piece, compared with a search of all stretches."""

import sys
from array import array

from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.fetch.stretch import Load, Stretch
from lacuna.agent.fetch.stretches import Stretches
from lacuna.controlplane.shared.log.pieces import NO_PIECES, Piece, Pieces
from lacuna.logstore.records.layout import WalkedBatches

KEY = (b"topic", 0)
NOTHING = WalkedBatches(array("q"), array("q"), array("q"), array("q"))


def piece(number: int, sequence: int = 0) -> Piece:
    """Return the number-th piece of a log whose pieces have three offsets each, followed by a hole."""
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
    """It must hold the very piece, not one with these offsets at another place."""
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
        # Nothing is missed by who looks only where it is told that something may be found.
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
