"""Tests which parts of a damaged piece remain: the batches before and after the damage, at their offsets."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored
from lacuna.pipeline.salvage import Part, intact_parts

#: The numbers of records of the batches of a piece, and how many offsets lie behind each where it has true offsets.
_COUNTS = (3, 1, 4, 2, 5)
_GAP = 10
_BASE = 100


def _batch(count: int, base_offset: int = 0) -> bytes:
    records = tuple(NewRecord(offset_delta=at, timestamp=5, value=b"value") for at in range(count))
    return BatchToWrite(records=records, base_offset=base_offset).encode()


class _Sound:
    """A piece as written: its bytes, the bounds of its batches, and their first offsets."""

    def __init__(self, *, has_true_offsets: bool) -> None:
        gap = _GAP if has_true_offsets else 0
        self.firsts = list(accumulate((count + gap for count in _COUNTS), initial=_BASE))
        batches = [
            _batch(count, first if has_true_offsets else 0)
            for count, first in zip(_COUNTS, self.firsts, strict=False)
        ]
        self.edges = list(accumulate(map(len, batches), initial=0))
        self.data = b"".join(batches)
        flags = FLAG_TRUE_OFFSETS if has_true_offsets else 0
        self.piece = Piece(1, 1, 50, len(self.data), _BASE, self.firsts[-1], flags)

    def end_of(self, batch: int) -> int:
        """Return the offset behind the records of a batch."""
        return self.firsts[batch] + _COUNTS[batch]


@pytest.mark.parametrize("has_true_offsets", [False, True])
@pytest.mark.parametrize("damaged", [(0,), (2,), (4,), (1, 3), (0, 4), (0, 1, 2, 3, 4)])
def test_what_is_before_and_behind_the_damage(
    has_true_offsets: bool, damaged: tuple[int, ...]
) -> None:
    sound = _Sound(has_true_offsets=has_true_offsets)
    data = bytearray(sound.data)
    for batch in damaged:
        data[sound.edges[batch + 1] - 1] ^= 1
    before, behind = damaged[0], damaged[-1] + 1
    expected = []
    if before:
        expected.append(Part(0, sound.edges[before], _BASE, sound.end_of(before - 1)))
    if behind < len(_COUNTS):
        position = sound.edges[behind]
        size = len(data) - position
        expected.append(Part(position, size, sound.firsts[behind], sound.firsts[-1]))
    assert intact_parts(data, sound.piece) == expected


@pytest.mark.parametrize("has_true_offsets", [False, True])
@given(data=st.data())
def test_any_damage_leaves_only_what_was_written(
    has_true_offsets: bool, data: st.DataObject
) -> None:
    """Any bytes may be wrong, including sizes and counts. A remaining part is unchanged and at its own offsets.

    The base offset of a batch with true offsets is not covered by its checksum, so the test does not change it.
    """
    sound = _Sound(has_true_offsets=has_true_offsets)
    wrong = bytearray(sound.data)
    starts = {at for edge in sound.edges[:-1] for at in range(edge, edge + 8)}
    places = st.integers(0, len(wrong) - 1).filter(lambda at: at not in starts)
    for at in data.draw(st.sets(places, min_size=1, max_size=4)):
        wrong[at] ^= data.draw(st.integers(1, 255))
    walk = walk_stored if has_true_offsets else walk_and_patch
    for part in intact_parts(bytearray(wrong), sound.piece):
        kept = wrong[part.position : part.position + part.size]
        first = sound.edges.index(part.position)
        assert part.position + part.size in sound.edges
        walked = walk(bytearray(kept), part.first_offset)
        assert list(walked.base_offsets) == sound.firsts[first : first + len(walked)]
        assert walked.last_offsets[-1] < part.end_offset <= sound.firsts[first + len(walked)]


def test_batches_that_do_not_add_up_are_not_used() -> None:
    """Each is intact, but an unknown one is missing."""
    sound = _Sound(has_true_offsets=False)
    data = bytearray(sound.data[: sound.edges[2]] + sound.data[sound.edges[3] :])
    assert intact_parts(data, sound.piece._replace(size=len(data))) == []
