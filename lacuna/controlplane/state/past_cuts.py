"""Past cuts of all partitions, stored as the ends that were below the last stable offsets.

The last stable offsets of all partitions at a past time are known (`History`), but a cut may have ended earlier in some
partitions. These ends are remembered for each whole second in which they changed and, as in a `History`, for fewer
seconds the older they are. A cut of all partitions is also a cut of any subset, though not always the largest one.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from lacuna.controlplane.shared.history import Widths, next_second_ms
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.unsettled import Unsettled, cut_of

#: The maximum number of seconds remembered, and of ends in all of them (about 100 bytes each).
MOST_SECONDS: Final = 1024
MOST_ENDS: Final = 50_000

#: The ends of a cut that lie below the last stable offset.
Lowered: TypeAlias = Mapping[PartitionKey, int]


class PastCuts(Widths):
    """The lowered ends at whole seconds, each valid from `seconds[i]` until `seconds[i + 1]`. Only replay changes them.

    No end was lowered between `first_second` and `seconds[0]`. Nothing is known about earlier times.
    """

    __slots__ = ("count", "ends", "first_second", "seconds")

    def __init__(self) -> None:
        super().__init__()
        self.seconds: array[int] = array("q")
        self.ends: list[Lowered] = []
        self.count = 0  # the number of ends
        self.first_second = 0

    def note(
        self, clock_ms: int, partitions: Mapping[PartitionKey, Partition], unsettled: Unsettled
    ) -> None:
        """Record the current cut, which has applied since the second after `clock_ms`, before it may change."""
        known: Lowered = self.ends[-1] if self.ends else {}
        lowered = lowered_now(partitions, unsettled)
        if lowered != known:
            self.put(next_second_ms(clock_ms) // 1000, lowered)
            if len(self.ends) >= MOST_SECONDS or self.count > MOST_ENDS:
                self._thin()

    def put(self, second: int, lowered: Lowered) -> None:
        """Add the ends that apply from a second, which must be later than all before it."""
        self.seconds.append(second)
        self.ends.append(lowered)
        self.count += len(lowered)

    def known_from(self) -> int:
        """Return the first second whose ends are known."""
        return self.first_second

    def at(self, second: int) -> Lowered:
        """Return the lowered ends at a second, from `known_from` until the last change."""
        index = bisect_right(self.seconds, second) - 1
        return self.ends[index] if index >= 0 else {}

    def hold_back(self, now_ms: int) -> None:
        """Forget all cuts, because the clock was set back to `now_ms`. The current cut is known from the next second.

        Before that second, histories may be less exact than their widths then indicate, so a cut could split
        transactions.
        """
        self._keep(())
        self.first_second = now_ms // 1000 + 1
        self.thinned_at = 0

    def _thin(self) -> None:
        """Keep only the entries that apply at a multiple of the interval for their age, and drop the oldest if there
        are still too many.
        """
        self._keep(self.kept(self.seconds))
        first, count = 0, self.count
        while len(self.ends) - first > MOST_SECONDS * 3 // 4 or (
            count > MOST_ENDS // 2 and first < len(self.ends) - 1
        ):
            count -= len(self.ends[first])
            first += 1
        if first:
            self.first_second = self.seconds[first]
            self._keep(range(first, len(self.ends)))

    def _keep(self, indexes: Sequence[int]) -> None:
        self.seconds = array("q", map(self.seconds.__getitem__, indexes))
        self.ends = list(map(self.ends.__getitem__, indexes))
        self.count = sum(map(len, self.ends))

    def rows(self) -> Iterator[tuple[int, Lowered]]:
        """Yield each second with its lowered ends."""
        return zip(self.seconds, self.ends, strict=True)


def lowered_now(partitions: Mapping[PartitionKey, Partition], unsettled: Unsettled) -> Lowered:
    """Return the lowered ends of the current cut of all partitions, in time linear in the number of unsettled spans."""
    transactions = list(unsettled.transactions.values())
    if not transactions:
        return {}
    keys = {key for spans in transactions for key in spans}
    there = {key: partitions[key] for key in keys if key in partitions}
    cut = cut_of(there, transactions)
    return {key: cut.ends[key] for key in sorted(cut.holders)}
