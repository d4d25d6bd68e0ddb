"""Indexes of a history for the rules that judge it: which operations wrote, read or passed a value or an offset."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.judge.history import (
    DIRTY,
    FAIL,
    HW,
    OK,
    READ,
    SEND,
    SERIAL,
    TXN,
    UNKNOWN,
    Bound,
    Delivery,
    History,
    Read,
    Write,
)

TRANSACTIONS: Final = (TXN, SERIAL)
WRITERS: Final = (*TRANSACTIONS, SEND)
_COMMITTED_READS: Final = (READ, *TRANSACTIONS)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Behaviour that Kafka rules out. `operations` are the indexes of the operations that prove it.

    In these operations, only the parts that mention an element of `focus` matter.
    """

    kind: str
    subject: str
    why: str
    operations: tuple[int, ...]
    focus: frozenset[str]

    @property
    def key(self) -> tuple[str, str]:
        """A key that identifies the anomaly even when only part of the history is judged."""
        return self.kind, self.subject


def about(kind: str, subject: str, why: str, operations: Sequence[int], *others: str) -> Anomaly:
    focus = frozenset((subject, *others))
    return Anomaly(kind, subject, why, tuple(dict.fromkeys(operations)), focus)


@dataclass(frozen=True, slots=True)
class Sight:
    """The earliest operation that returned a value, and the place and offset at which it did."""

    index: int
    place: str
    offset: int


@dataclass(frozen=True, slots=True)
class Moment:
    """An offset that an operation saw or set, at some time from `start` to `end`."""

    start: float
    end: float
    offset: int
    index: int


def regressions(firm: Iterable[Moment], later: Iterable[Moment]) -> Iterator[tuple[Moment, Moment]]:
    """Yield pairs of a firm moment and a later one with a lower offset, which began after the firm one had ended.

    Each later moment is compared with the preceding firm moment that has the highest offset.
    """
    ended = sorted(firm, key=lambda each: each.end)
    best: Moment | None = None
    position = 0
    for moment in sorted(later, key=lambda each: each.start):
        while position < len(ended) and ended[position].end < moment.start:
            if best is None or ended[position].offset > best.offset:
                best = ended[position]
            position += 1
        if best is not None and moment.offset < best.offset:
            yield best, moment


class _Passes:
    """The reads of one place, indexed by the offsets that they passed."""

    def __init__(self, intervals: list[tuple[int, int, int]]) -> None:
        intervals.sort()
        self._firsts = [first for first, _, _ in intervals]
        self._furthest: list[tuple[int, int]] = []
        best = (-1, -1)
        for _, end, index in intervals:
            best = max(best, (end, index))
            self._furthest.append(best)

    def of(self, offset: int) -> int | None:
        """Return the index of an operation that passed the offset, or None."""
        position = bisect_right(self._firsts, offset)
        if not position:
            return None
        end, index = self._furthest[position - 1]
        return index if end > offset else None


class Facts:
    def __init__(self, history: History) -> None:
        self.history = history
        #: Value → the index of its writer, and the write.
        self.writers: dict[str, tuple[int, Write]] = {}
        #: Value → its earliest sight by read_committed readers and share groups, and by any reader.
        self.seen: dict[str, Sight] = {}
        self.glimpsed: dict[str, Sight] = {}
        #: Value → where readers found it.
        self.places: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        #: Place → offset → value, as the first read_committed reader found it.
        self.truth: defaultdict[str, dict[int, str]] = defaultdict(dict)
        #: Place and offset → the values that were found there, with an operation that found each.
        self.contents: defaultdict[tuple[str, int], dict[str, int]] = defaultdict(dict)
        self._reads: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for index, each in enumerate(history):
            for write in each.of(Write):
                self.writers.setdefault(write.value, (index, write))
        for index in sorted(range(len(history)), key=lambda index: history[index].end):
            self._look(index)
        self._offsets = {place: sorted(found) for place, found in self.truth.items()}
        self._passes = {place: _Passes(found) for place, found in self._reads.items()}
        self._ends = self._whole_ends()

    def _look(self, index: int) -> None:
        each = self.history[index]
        is_committed = each.kind in _COMMITTED_READS
        for read in each.of(Read):
            if is_committed:
                self._reads[read.place].append((read.first, read.end, index))
            for offset, value in read.records:
                self._sight(value, Sight(index, read.place, offset), is_committed)
        for delivery in each.of(Delivery):
            sight = Sight(index, delivery.place, delivery.offset)
            self.seen.setdefault(delivery.value, sight)
            self.glimpsed.setdefault(delivery.value, sight)

    def _sight(self, value: str, sight: Sight, is_committed: bool) -> None:
        where = (sight.place, sight.offset)
        self.places[value].add(where)
        self.contents[where].setdefault(value, sight.index)
        self.glimpsed.setdefault(value, sight)
        if is_committed:
            self.seen.setdefault(value, sight)
            self.truth[sight.place].setdefault(sight.offset, value)

    def _whole_ends(self) -> dict[str, int]:
        """Return, for each place, the offset up to which reads cover its log without a gap.

        Only reads that began after all writes to the place had ended are considered.
        """
        written: dict[str, float] = {}
        for each in self.history:
            for write in each.of(Write):
                written[write.place] = max(each.end, written.get(write.place, 0.0))
        ends: dict[str, int] = {}
        for place, intervals in self._reads.items():
            end = 0
            for first, last, index in intervals:
                if first <= end and self.history[index].start >= written.get(place, 0.0):
                    end = max(end, last)
            ends[place] = end
        for each in self.history:
            for bound in each.of(Bound):
                late = each.start >= written.get(bound.place, 0.0)
                if bound.what == HW and late and ends.get(bound.place, 0) < bound.offset:
                    ends.pop(bound.place, None)
        return ends

    def passing(self, write: Write) -> int | None:
        """Return the index of a read that would have returned the write if it were committed, or None."""
        passes = self._passes.get(write.place)
        if passes is None:
            return None
        if write.offset is not None:
            return passes.of(write.offset)
        end = self._ends.get(write.place)
        return passes.of(end - 1) if end else None

    def between(self, place: str, first: int, end: int) -> list[int]:
        """Return the offsets of the committed records in a range."""
        offsets = self._offsets.get(place, [])
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, end)]

    def offset_of(self, write: Write) -> int | None:
        """Return a write's offset, as reported by the broker or seen by a reader, or None."""
        sight = self.glimpsed.get(write.value)
        if write.offset is not None or sight is None or sight.place != write.place:
            return write.offset
        return sight.offset

    def is_visible(self, index: int) -> bool:
        """Whether an operation has been committed, or has an unknown outcome but was seen by a reader."""
        each = self.history[index]
        if each.outcome == UNKNOWN:
            return any(write.value in self.seen for write in each.of(Write))
        return each.outcome == OK

    def is_written(self, value: str) -> bool:
        """Whether a value was written, and neither aborted nor rejected."""
        return value in self.writers and not self.has_failed(self.writers[value][0])

    def writing(self, outcome: str = "") -> Iterator[int]:
        """Yield the indexes of transactions and sends with the given outcome, or with any."""
        for index, each in enumerate(self.history):
            if each.kind in WRITERS and outcome in ("", each.outcome):
                yield index

    def reading(self) -> Iterator[tuple[int, Read]]:
        """Yield each read under either isolation level, with its operation's index."""
        for index, each in enumerate(self.history):
            if each.kind == DIRTY or each.kind in _COMMITTED_READS:
                for read in each.of(Read):
                    yield index, read

    def moment(self, index: int, offset: int) -> Moment:
        each = self.history[index]
        return Moment(each.start, each.end, offset, index)

    def has_failed(self, index: int) -> bool:
        """Whether an operation was definitely aborted or rejected."""
        return self.history[index].outcome == FAIL
