"""How far partitions have been stable for some time.

So what a consumer may still want to see uncommitted is not taken away under its eyes (S14), and nothing is
rewritten that grows at this moment.
"""

from collections.abc import Iterable

from controlplane.state.partition import Partition, PartitionKey


class Horizons:
    """The last stable offsets of all partitions as they were noted twice, with the times.

    Volatile: after a restart the first notes are waited for.
    """

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._older: tuple[int, dict[PartitionKey, int]] = (0, {})
        self._newer: tuple[int, dict[PartitionKey, int]] = (0, {})

    def move(self, partitions: Iterable[Partition], min_age_ms: int, now_ms: int) -> None:
        """Notes the offsets of now once the last note is `min_age_ms` old; 0 notes nothing."""
        if min_age_ms <= 0 or now_ms < self._newer[0] + min_age_ms:
            return
        self._older = self._newer
        self._newer = now_ms, {each.key: each.last_stable_offset for each in partitions}

    def stable_for(self, key: PartitionKey, min_age_ms: int, now_ms: int) -> int:
        """An offset up to which the partition is stable since `min_age_ms` or longer; 0: not known."""
        for noted_ms, offsets in (self._newer, self._older):
            if noted_ms + min_age_ms <= now_ms:
                return offsets.get(key, 0)
        return 0
