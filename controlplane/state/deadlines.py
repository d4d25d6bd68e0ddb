"""Deadlines by key, looked at once per tick."""

from heapq import heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", int, str)

NEVER = 1 << 62


class Deadlines(Generic[Key]):
    """When each key is due, in milliseconds.

    Deadlines are far and are mostly moved on or taken back before they come. So each key has at most one
    entry in a heap, at its deadline or before it; only when the entry's time has come is it looked at
    what the deadline is by now. Setting one costs the same with however many keys.
    """

    __slots__ = ("_by_key", "_entered", "_heap")

    def __init__(self) -> None:
        self._by_key: dict[Key, int] = {}
        self._entered: dict[Key, int] = {}  # the time of the key's entry that counts
        self._heap: list[tuple[int, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def set(self, key: Key, deadline_ms: int) -> None:
        """Sets or moves the deadline of a key."""
        self._by_key[key] = deadline_ms
        entered_ms = self._entered.get(key)
        if entered_ms is None or deadline_ms < entered_ms:
            self._entered[key] = deadline_ms
            heappush(self._heap, (deadline_ms, key))

    def discard(self, key: Key) -> None:
        """Takes a deadline back, if there is one."""
        self._by_key.pop(key, None)

    def due(self, now_ms: int, limit: int) -> list[Key]:
        """At most `limit` keys whose deadline is at or before `now_ms`, earliest first, then in the
        order of keys. Each stays due until its deadline is moved or taken back.
        """
        found: list[tuple[int, Key]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < limit:
            at_ms, key = heappop(self._heap)
            if self._entered.get(key) != at_ms:
                continue  # an earlier deadline took its place
            del self._entered[key]
            deadline_ms = self._by_key.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                found.append((deadline_ms, key))
            else:
                self.set(key, deadline_ms)
        for deadline_ms, key in found:
            self.set(key, deadline_ms)
        found.sort()
        return [key for _, key in found]
