"""Deadlines by key, checked in every tick."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", int, str)

NEVER = 1 << 62


class Deadlines(Generic[Key]):
    """The deadline of each key, in milliseconds.

    Most deadlines are far in the future, and are moved or discarded before they pass. So the heap has at most one valid
    entry per key, at or before its deadline, and the current deadline is checked only when that entry comes due. The
    cost of postponing a deadline does not depend on the number of keys.
    """

    __slots__ = ("_by_key", "_entered", "_heap", "_moved_ms")

    def __init__(self) -> None:
        self._by_key: dict[Key, int] = {}
        self._entered: dict[Key, int] = {}  # the time of the key's valid entry in the heap
        self._heap: list[tuple[int, Key]] = []
        self._moved_ms = 0  # to be added to all stored times

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_key)

    def set(self, key: Key, deadline_ms: int) -> None:
        self._set(key, deadline_ms - self._moved_ms)

    def _set(self, key: Key, deadline_ms: int) -> None:
        self._by_key[key] = deadline_ms
        entered_ms = self._entered.get(key)
        if entered_ms is None or deadline_ms < entered_ms:
            self._entered[key] = deadline_ms
            heappush(self._heap, (deadline_ms, key))

    def shift(self, by_ms: int) -> None:
        """Move all current deadlines, at a cost that does not depend on their number."""
        self._moved_ms += by_ms

    def discard(self, key: Key) -> None:
        self._by_key.pop(key, None)

    def due(self, now_ms: int, limit: int) -> list[Key]:
        """Return at most `limit` keys with deadlines at or before `now_ms`, ordered by deadline and then key.

        A key stays due until its deadline is moved or discarded.
        """
        now_ms -= self._moved_ms
        found: list[tuple[int, Key]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < limit:
            at_ms, key = heappop(self._heap)
            if self._entered.get(key) != at_ms:
                continue  # replaced by an earlier entry
            del self._entered[key]
            deadline_ms = self._by_key.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                found.append((deadline_ms, key))
            else:
                self._set(key, deadline_ms)
        for deadline_ms, key in found:
            self._set(key, deadline_ms)
        found.sort()
        return [key for _, key in found]
