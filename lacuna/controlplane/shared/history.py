"""A partition's history: its last stable offset at past times.

Everything below the last stable offset is decided and never changes (S3). At any given time, a read_committed consumer
could therefore see the partition up to the last stable offset of that time. The history contains this offset for each
whole second in which it moved; for older times, only for every fifth second, then for every fifteenth, and so on. These
intervals are the same for all partitions, so their answers share common times, at which each transaction was either
open or ended in all of them. A transaction that had ended was not necessarily visible in all of them, because a
partition's last stable offset stays before it while an earlier transaction is open there.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Final

from lacuna.controlplane.v1.log_pb2 import StableHistory

#: The maximum number of entries per partition, at 16 bytes each.
MOST_ENTRIES: Final = 1024
#: The intervals in seconds, from 1 s to 64 days, each of which divides the next. Times up to REACH intervals ago are
#: exact to within one interval.
WIDTHS: Final = (
    *(1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 43_200),
    *(86_400 << doublings for doublings in range(7)),
)
REACH: Final = 100
_AGES: Final = tuple(width * REACH for width in WIDTHS)
#: Adding an entry is usually quick, but sometimes requires a pass over all entries. Spreading the limits keeps
#: partitions that add entries at the same time from needing this pass at the same time.
_SPREAD: Final = 256
#: The minimum number of free entries after each pass.
_ROOM: Final = 64


def next_second_ms(now_ms: int) -> int:
    """Return the first whole second after a time, in milliseconds."""
    return (now_ms // 1000 + 1) * 1000


class Widths:
    """The spacing of the entries in a history, which grows with their age. The entries were last thinned at second
    `thinned_at`.
    """

    __slots__ = ("thinned_at",)

    def __init__(self) -> None:
        self.thinned_at = 0

    def known_from(self) -> int:
        """Return the first second for which there is an answer."""
        raise NotImplementedError

    def width(self, second: int) -> int:
        """Return the interval, in seconds, between the whole seconds around `second` for which the answer is exact."""
        age = self.thinned_at - second
        return WIDTHS[min(bisect_left(_AGES, age), len(WIDTHS) - 1)] if age > 0 else 1

    def kept(self, seconds: Sequence[int]) -> list[int]:
        """Thin the entries at these seconds, measuring their ages from the last one. Return the indexes of the entries
        to keep: the last one, and those that apply at a multiple of the interval for their age.
        """
        self.thinned_at = seconds[-1]
        kept: list[int] = []
        for index, (second, next_second) in enumerate(pairwise(seconds)):
            last = next_second - 1
            if last - last % self.width(last) >= second:
                kept.append(index)
        kept.append(len(seconds) - 1)
        return kept


class History(Widths):
    """The last stable offsets of a partition at whole seconds.

    From `seconds[i]` on, the last stable offset was `offsets[i]`, until some time in the second before `seconds[i +
    1]`, unless an entry between the two has been dropped. It has not moved since `settled_ms`, a whole second, but may
    have moved before. Entries were last thinned at second `thinned_at`, and are thinned again once there are `most` of
    them. All times are the control plane's.
    """

    __slots__ = ("most", "offsets", "seconds", "settled_ms")

    def __init__(self, settled_ms: int, spread: int = 0) -> None:
        """Create an empty history for a partition whose last stable offset is known from `settled_ms` on."""
        super().__init__()
        self.seconds: array[int] = array("q")
        self.offsets: array[int] = array("q")
        self.settled_ms = settled_ms
        self.most = MOST_ENTRIES - spread % _SPREAD

    def note(self, last_stable_offset: int, now_ms: int) -> None:
        """Record the last stable offset before it may move. `now_ms` must be at least `settled_ms`."""
        offsets = self.offsets
        if not offsets or offsets[-1] != last_stable_offset:
            self.seconds.append(self.settled_ms // 1000)
            offsets.append(last_stable_offset)
            if len(offsets) >= self.most:
                self.thin()
        self.settled_ms = next_second_ms(now_ms)

    def begin_empty(self, second: int) -> None:
        """Record that a new partition had no visible records from `second` on."""
        self.seconds.append(second)
        self.offsets.append(0)

    def drop_below(self, log_start_offset: int) -> None:
        """Drop the entries with offsets up to the log start, except the newest of them: at those times, nothing above
        the log start was visible.
        """
        gone = bisect_right(self.offsets, log_start_offset) - 1
        if gone > 0:
            self._drop_first(gone)

    def hold_back(self, now_ms: int) -> None:
        """Move all later times to `now_ms`, after the clock has been set back to that time."""
        second = now_ms // 1000
        kept = bisect_right(self.seconds, second)
        del self.seconds[kept:], self.offsets[kept:]
        self.settled_ms = min(self.settled_ms, next_second_ms(now_ms))
        self.thinned_at = min(self.thinned_at, second)

    def known_from(self) -> int:
        return self.seconds[0] if self.seconds else self.settled_ms // 1000

    def at(self, second: int, last_stable_offset: int) -> int:
        """Return the last stable offset at `second`, which must not be before `known_from`; `last_stable_offset` is the
        current one.
        """
        if second * 1000 >= self.settled_ms:
            return last_stable_offset
        return self.offsets[bisect_right(self.seconds, second) - 1]

    def thin(self) -> None:
        """Keep only the entries that apply at a multiple of the interval for their age."""
        seconds = self.seconds
        kept = self.kept(seconds)
        self.seconds = array("q", map(seconds.__getitem__, kept))
        self.offsets = array("q", map(self.offsets.__getitem__, kept))
        excess = len(kept) + _ROOM - self.most
        if excess > 0:
            self._drop_first(excess)

    def _drop_first(self, count: int) -> None:
        del self.seconds[:count]
        del self.offsets[:count]

    def message(self) -> StableHistory:
        return StableHistory(
            seconds=_differences(self.seconds),
            offsets=_differences(self.offsets),
            settled_ms=self.settled_ms,
            thinned_at=self.thinned_at,
        )

    @classmethod
    def of(cls, message: StableHistory, spread: int = 0) -> "History":
        found = cls(message.settled_ms, spread)
        found.seconds.extend(accumulate(message.seconds))
        found.offsets.extend(accumulate(message.offsets))
        found.thinned_at = message.thinned_at
        return found


def common_second(histories: Collection[Widths], at_ms: int) -> int:
    """Return the last second up to `at_ms` for which all of these histories are exact."""
    second = at_ms // 1000
    while True:
        width = max((each.width(second) for each in histories), default=1)
        if not second % width:
            return second
        second -= second % width


def known_from(histories: Collection[Widths]) -> int:
    """Return the first second from which all of these histories have an answer for `common_second`."""
    first = max((each.known_from() for each in histories), default=0)
    width = max((each.width(first) for each in histories), default=1)
    return -(-first // width) * width


def _differences(numbers: Iterable[int]) -> Iterable[int]:
    """Yield the first number, and then the difference between each number and the one before it."""
    return (number - before for before, number in pairwise(chain((0,), numbers)))
