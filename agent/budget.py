"""A bound on bytes that are held at once, shared by the connections of an agent."""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Bytes taken and given back. Who waits while it is full is called back in order.

    One taker may exceed the limit (a frame is as large as it is), never a second one.
    """

    __slots__ = ("_limit", "_taken", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def taken(self) -> int:
        """Bytes held now."""
        return self._taken

    @property
    def is_full(self) -> bool:
        """True where nobody should take more."""
        return self._taken >= self._limit

    def take(self, count: int) -> None:
        """Hold `count` more bytes, whether or not the budget is full: they are there already."""
        self._taken += count

    def give_back(self, count: int) -> None:
        """Release bytes and call those who waited while there is room."""
        self._taken -= count
        while self._waiting and not self.is_full:
            self._waiting.popleft()()

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call back once there is room."""
        self._waiting.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """The waiter is gone."""
        if callback in self._waiting:
            self._waiting.remove(callback)
