"""A bound on the bytes held in memory at any time, shared by the connections of an agent."""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Counts the bytes that connections hold, and calls waiting callbacks in order once there is room.

    `take` never fails, so bytes already read may exceed the limit. Callers stop reading while `is_full` is true.
    """

    __slots__ = ("_limit", "_taken", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def taken(self) -> int:
        """The number of bytes held now."""
        return self._taken

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached, so that callers should take no more."""
        return self._taken >= self._limit

    def take(self, count: int) -> None:
        """Add `count` bytes to the total, even beyond the limit, since they are already in memory."""
        self._taken += count

    def give_back(self, count: int) -> None:
        """Release `count` bytes, and call waiting callbacks in order while there is room."""
        self._taken -= count
        while self._waiting and not self.is_full:
            self._waiting.popleft()()

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when bytes are released and there is room."""
        self._waiting.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """Remove `callback` from the waiting callbacks, so that it is not called. Does nothing if it is not waiting."""
        if callback in self._waiting:
            self._waiting.remove(callback)
