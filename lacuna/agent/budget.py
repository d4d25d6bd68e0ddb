"""A bound on the bytes that all connections of an agent together hold in memory."""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Counts the bytes that connections hold, and calls waiting callbacks in order once there is room.

    `take` never fails, since the bytes have already been read, so the total may exceed the limit. Callers stop reading
    while `is_full` is true.
    """

    __slots__ = ("_limit", "_taken", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def is_full(self) -> bool:
        return self._taken >= self._limit

    def take(self, count: int) -> None:
        """Count `count` more bytes, even beyond the limit."""
        self._taken += count

    def give_back(self, count: int) -> None:
        """Release `count` bytes, and call waiting callbacks in order while there is room."""
        self._taken -= count
        while self._waiting and not self.is_full:
            self._waiting.popleft()()

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as bytes are released and there is room."""
        self._waiting.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """Cancel a waiting callback. Does nothing if it is not waiting."""
        if callback in self._waiting:
            self._waiting.remove(callback)
