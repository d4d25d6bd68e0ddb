"""Keeps the horizons of partitions: the offsets up to which they have been stable for some time.

Only records below them are merged or compacted, so that read_uncommitted consumers can still read recent records (S14)
and growing parts are not rewritten.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import Partition

#: With five notes, a quarter of the minimum age apart, records count as old enough at most that much late.
_NOTES: Final = 5


class Horizons:
    """The last stable offsets of all partitions at recent times.

    They are volatile: after a restart, no horizon is known until the first note is old enough.
    """

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: deque[tuple[int, dict[PartitionKey, int]]] = deque(maxlen=_NOTES)

    def move(self, partitions: Iterable[Partition], min_age_ms: int, now_ms: int) -> None:
        """Record the current offsets if the last note is at least a quarter of `min_age_ms` old; with 0, record
        nothing.
        """
        pause_ms = -(-min_age_ms // (_NOTES - 1))
        if min_age_ms <= 0 or (self._notes and now_ms < self._notes[0][0] + pause_ms):
            return
        self._notes.appendleft((now_ms, {each.key: each.last_stable_offset for each in partitions}))

    def stable_for(self, key: PartitionKey, min_age_ms: int, now_ms: int) -> int:
        """Return an offset up to which the partition has been stable for at least `min_age_ms`; 0 if none is known."""
        for noted_ms, offsets in self._notes:
            if noted_ms + min_age_ms <= now_ms:
                return offsets.get(key, 0)
        return 0
