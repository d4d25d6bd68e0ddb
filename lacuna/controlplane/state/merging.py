"""The partitions that agents are merging or cleaning, and the offset up to which each partition has been stable for
some time.

All of it is volatile, since swaps are fenced anyway. No two agents work on the same partition. Only records below a
horizon are merged, cleaned or compacted, so that read_uncommitted consumers can still read recent records (S14), and
parts that still grow are not rewritten.
"""

from collections import deque
from collections.abc import Collection, Container, Iterable
from typing import Final, NamedTuple

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import Partition

#: An agent that has not swapped a plan's extents within this time has given up, or has lost the plan.
_LIFETIME_MS: Final = 30_000
#: An agent that has not requested the next range of a pass within this time has given up.
_CLEANING_MS: Final = 60_000
#: With five notes, a quarter of the minimum age apart, records count as old enough at most a quarter of that age late.
_NOTES: Final = 5


class MergeTurn:
    """The order in which merging visits partitions, and the length of runs.

    A round visits the partitions in the order of their keys. Segments store partitions in that order too, so the data
    that a plan reads from an object is contiguous, and takes one GET. All runs are equally long, so that if partitions
    receive extents equally often, the runs in a plan have extents in the same objects.
    """

    def __init__(self) -> None:
        self._left: list[PartitionKey] = []
        #: The numbers of runs, extents and bytes, in this round and in the last one.
        self._now = (0, 0, 0)
        self._before: tuple[int, int, int] | None = None

    def next(self, partitions: Collection[PartitionKey]) -> PartitionKey:
        """Return the next partition to visit; there must be at least one."""
        while True:
            while self._left:
                key = self._left.pop()
                if key in partitions:
                    return key
            # Before the first round, all partitions are assumed to be worth merging.
            self._before = (len(partitions), 0, 0) if self._before is None else self._now
            self._now = (0, 0, 0)
            self._left = sorted(partitions, reverse=True)

    def found(self, extents: int, size: int) -> None:
        """Record that a partition had a run worth merging, of this size."""
        runs, all_extents, all_bytes = self._now
        self._now = (runs + 1, all_extents + extents, all_bytes + size)

    def most(self, least: int, small_bytes: int, extents_a_plan: int) -> int:
        """Return the maximum number of extents in a run.

        This is enough for a run to become large, but at most twice `least`: the shorter the runs in a plan, the fewer
        objects they read. If few partitions are worth merging, their runs may be long enough to fill a plan.
        """
        runs, extents, size = max(self._now, self._before or self._now)
        # About half of the merged records may be aborted.
        enough = 2 * small_bytes * extents // size + 1 if size else 0
        return max(least, min(enough, 2 * least), extents_a_plan // max(1, runs))


class MergesUnderWay:
    """Partitions that have been planned but not yet swapped, in the order of their plans."""

    def __init__(self) -> None:
        self._kept: dict[PartitionKey, tuple[int, int]] = {}

    def forget_old(self, now_ms: int) -> None:
        """Drop outdated plans. Must be called before each plan."""
        for key, (_, ends_ms) in list(self._kept.items()):
            if ends_ms > now_ms:
                break
            del self._kept[key]

    def is_of_another(self, key: PartitionKey, lease_id: int, leases: Container[int]) -> bool:
        """Whether an agent with another live lease is merging a partition."""
        other = self._kept.get(key, (lease_id, 0))[0]
        return other != lease_id and other in leases

    def begin(self, key: PartitionKey, lease_id: int, now_ms: int) -> None:
        """Record a plan to merge a partition."""
        self.end(key)
        self._kept[key] = (lease_id, now_ms + _LIFETIME_MS)

    def end(self, key: PartitionKey) -> None:
        """Record that a planned swap has succeeded or been rejected."""
        self._kept.pop(key, None)


class _Pass(NamedTuple):
    lease_id: int
    end_offset: int
    until_ms: int


class Cleanings:
    """The partitions that agents are cleaning by key, one per agent. Merges skip the extents that a pass rewrites."""

    def __init__(self) -> None:
        self._passes: dict[PartitionKey, _Pass] = {}

    def forget_old(self, now_ms: int) -> None:
        """Drop passes that their agents have abandoned."""
        self._passes = {key: each for key, each in self._passes.items() if each.until_ms > now_ms}

    def is_of_another(self, key: PartitionKey, lease_id: int, leases: Container[int]) -> bool:
        """Whether an agent with another live lease is cleaning a partition."""
        found = self._passes.get(key)
        return found is not None and found.lease_id != lease_id and found.lease_id in leases

    def end_offset(self, key: PartitionKey, now_ms: int) -> int:
        """Return where the pass over a partition ends, or 0 if there is none."""
        found = self._passes.get(key)
        return found.end_offset if found is not None and found.until_ms > now_ms else 0

    def go_on(self, key: PartitionKey, lease_id: int, end_offset: int, now_ms: int) -> None:
        """Record the start or progress of a pass that ends at `end_offset`."""
        self._passes[key] = _Pass(lease_id, end_offset, now_ms + _CLEANING_MS)

    def end(self, key: PartitionKey) -> None:
        self._passes.pop(key, None)


class Horizons:
    """The last stable offsets of all partitions at a few recent times.

    They are volatile: after a restart, no horizon is known until the first note is old enough.
    """

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: deque[tuple[int, dict[PartitionKey, int]]] = deque(maxlen=_NOTES)

    def move(self, partitions: Iterable[Partition], min_age_ms: int, now_ms: int) -> None:
        """Note the current offsets, unless `min_age_ms` is 0 or the last note is younger than a quarter of it."""
        pause_ms = -(-min_age_ms // (_NOTES - 1))
        if min_age_ms <= 0 or (self._notes and now_ms < self._notes[0][0] + pause_ms):
            return
        self._notes.appendleft((now_ms, {each.key: each.last_stable_offset for each in partitions}))

    def stable_for(self, key: PartitionKey, min_age_ms: int, now_ms: int) -> int:
        """Return an offset up to which the partition has been stable for `min_age_ms`, or 0 if none is known."""
        for noted_ms, offsets in self._notes:
            if noted_ms + min_age_ms <= now_ms:
                return offsets.get(key, 0)
        return 0
