"""Deadlines by key, looked at once per tick."""

from typing import Generic, TypeVar

Key = TypeVar("Key")

NEVER = 1 << 62


class Deadlines(Generic[Key]):
    """When each key is due, in milliseconds.

    A lower bound of all deadlines makes the usual look free: deadlines are far and are mostly taken
    back before they come, so that a scan happens about once per typical deadline, not once per
    tick.
    """

    __slots__ = ("_by_key", "_earliest_ms")

    def __init__(self) -> None:
        self._by_key: dict[Key, int] = {}
        self._earliest_ms = NEVER

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def set(self, key: Key, deadline_ms: int) -> None:
        """Sets or moves the deadline of a key."""
        self._by_key[key] = deadline_ms
        if deadline_ms < self._earliest_ms:
            self._earliest_ms = deadline_ms

    def discard(self, key: Key) -> None:
        """Takes a deadline back, if there is one."""
        self._by_key.pop(key, None)

    def due(self, now_ms: int) -> list[Key]:
        """The keys whose deadline is at or before `now_ms`, earliest first, then in the order of
        keys.
        """
        if now_ms < self._earliest_ms:
            return []
        self._earliest_ms = min(self._by_key.values(), default=NEVER)
        found = [(at_ms, key) for key, at_ms in self._by_key.items() if at_ms <= now_ms]
        found.sort()
        return [key for _, key in found]
