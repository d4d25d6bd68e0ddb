"""How many bytes of hot segments the journal accepts, and when merging moves them to the bucket.

Volatile: a new leader starts with the full allowance.
"""

from typing import Final

from lacuna.base.setting import MEBIBYTE

#: The defaults of `RuntimeSettings.hot_bytes_per_second` and `max_hot_bytes`.
HOT_BYTES_PER_SECOND: Final = 16 * MEBIBYTE
MAX_HOT_BYTES: Final = 2048 * MEBIBYTE
#: How many seconds' worth of bytes may arrive at once, after some time in which fewer arrived.
_BURST_SECONDS: Final = 4


class HotIntake:
    """Admits hot segments up to a rate, apart from bursts, and up to a total that the journal may hold.

    The runtime sets `kept_bytes` to the size of the hot segments that the journal has not yet dropped.
    """

    __slots__ = ("_allowed", "_as_of_ms", "bytes_per_second", "kept_bytes", "max_bytes", "refused")

    def __init__(self) -> None:
        self.bytes_per_second = HOT_BYTES_PER_SECOND
        self.max_bytes = MAX_HOT_BYTES
        self.kept_bytes = 0
        self.refused = 0
        self._allowed = float(_BURST_SECONDS * HOT_BYTES_PER_SECOND)
        self._as_of_ms = 0

    @property
    def is_half_full(self) -> bool:
        """Whether hot segments in the journal exceed half of their bound."""
        return self.kept_bytes > self.max_bytes // 2

    def admits(self, size: int, now_ms: int) -> bool:
        """Count a segment of `size` bytes and return True, or return False if it would exceed a bound."""
        passed_ms = max(0, now_ms - self._as_of_ms)
        self._as_of_ms = now_ms
        rate = self.bytes_per_second
        self._allowed = min(_BURST_SECONDS * rate, self._allowed + passed_ms * rate / 1000)
        if size > self._allowed or self.kept_bytes + size > self.max_bytes:
            self.refused += 1
            return False
        self._allowed -= size
        return True


class HotRounds:
    """Rounds over all partitions, in which merging moves out all hot extents, however few there are.

    A round ends once it has found no hot extents in as many consecutive visits as there are partitions. Between rounds,
    merging moves out only enough to fill an object, so that a trickle of records costs few PUTs.
    """

    __slots__ = ("_ended_ms", "_left")

    def __init__(self) -> None:
        self._left = 0
        self._ended_ms = 0

    def begin(self, partitions: int, pause_ms: int, now_ms: int) -> None:
        """Begin a round over `partitions` partitions, if the last one ended at least `pause_ms` ago."""
        if not self._left and now_ms >= self._ended_ms + pause_ms:
            self._left = partitions

    def visit(self, now_ms: int) -> bool:
        """Move on to the next partition. Return whether this visit is part of a round."""
        if not self._left:
            return False
        self._left -= 1
        self._ended_ms = now_ms
        return True

    def found(self, partitions: int) -> None:
        """Let the round last for `partitions` more visits, since it has found hot extents."""
        self._left = partitions
