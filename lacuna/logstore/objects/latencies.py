"""Tracks how long recent requests of each kind took."""

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

#: The operation and its size class. Requests for larger objects take longer, so each class has its own estimate.
Kind: TypeAlias = tuple[str, int]

#: A class is a power of two. Below 64 KiB, the size does not matter.
_SMALL_BITS: Final = 16
_KEPT: Final = 256
#: The minimum number of durations. Fewer durations say too little about the slowest twentieth.
_NEEDED: Final = 64
#: An estimate is reused for this number of calls, since sorting takes about 10 µs.
_ESTIMATED_EVERY: Final = 16


def request_kind(operation: str, size: int) -> Kind:
    """Return the kind of an operation on `size` bytes (0 if unknown)."""
    return operation, (max(size - 1, 0) >> _SMALL_BITS).bit_length() + (size > 0)


class Latencies:
    """The 95th percentile of recent request durations for each kind, in seconds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[Kind, _Durations] = {}

    def percentile_95(self, kind: Kind) -> float | None:
        known = self._kinds.get(kind)
        return None if known is None else known.percentile_95

    def add(self, kind: Kind, seconds: float) -> None:
        """Record the duration of a request.

        Second attempts may shorten a request, but do not affect the estimate, since they start only after the 95th
        percentile.
        """
        with self._lock:
            self._kinds.setdefault(kind, _Durations()).add(seconds)


@dataclass(slots=True)
class _Durations:
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    calls: int = 0
    percentile_95: float | None = None

    def add(self, seconds: float) -> None:
        self.last.append(seconds)
        self.calls += 1
        if self.calls >= _NEEDED and self.calls % _ESTIMATED_EVERY == 0:
            self.percentile_95 = sorted(self.last)[len(self.last) * 95 // 100]
