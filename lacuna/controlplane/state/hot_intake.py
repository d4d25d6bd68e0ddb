"""How many bytes of hot segments the journal takes. Volatile: the next leader begins with a full allowance."""

from typing import Final

from lacuna.base.setting import MEBIBYTE

#: The defaults of `RuntimeSettings.hot_bytes_per_second` and `max_hot_bytes`.
HOT_BYTES_PER_SECOND: Final = 16 * MEBIBYTE
MAX_HOT_BYTES: Final = 2048 * MEBIBYTE


class HotIntake:
    """Admits hot segments up to a rate, a second's worth at once, and up to a bound on what the journal keeps.

    The runtime sets `kept_bytes` to the size of what the journal has and has not dropped yet.
    """

    __slots__ = ("_allowed", "_as_of_ms", "bytes_per_second", "kept_bytes", "max_bytes", "refused")

    def __init__(self) -> None:
        self.bytes_per_second = HOT_BYTES_PER_SECOND
        self.max_bytes = MAX_HOT_BYTES
        self.kept_bytes = 0
        self.refused = 0
        self._allowed = float(HOT_BYTES_PER_SECOND)
        self._as_of_ms = 0

    def admits(self, size: int, now_ms: int) -> bool:
        """Count a segment of this many bytes and return True, or return False if it goes beyond a bound."""
        passed_ms = max(0, now_ms - self._as_of_ms)
        self._as_of_ms = now_ms
        most = float(self.bytes_per_second)
        self._allowed = min(most, self._allowed + passed_ms * most / 1000)
        if size > self._allowed or self.kept_bytes + size > self.max_bytes:
            self.refused += 1
            return False
        self._allowed -= size
        return True
