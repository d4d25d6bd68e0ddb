"""Items that housekeeping leaves alone for a while after a failure, so that a failure affects only its own item."""

import logging
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

log = logging.getLogger("lacuna.housekeeping")

T = TypeVar("T", bound=Hashable)

_FIRST_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 3600.0
_MOST: Final = 1000


class SetAside(Generic[T]):
    """The items at which a job has failed. Each is left alone for 30 s, and twice as long after each further failure.

    At most `_MOST` items are remembered. An item that has not failed again for an hour is forgotten. Times are event
    loop times.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        #: Item -> the time until which it is left alone, and the length of the pause. The item that failed last is at
        #: the end.
        self._items: dict[T, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, what: str, error: Exception, now: float) -> None:
        """Leave an item alone from now on, and log the reason; `what` is its name."""
        _, before = self._items.pop(item, (0.0, _FIRST_SECONDS / 2))
        pause = min(2 * before, _LONGEST_SECONDS)
        self._items[item] = (now + pause, pause)
        if len(self._items) > _MOST:
            del self._items[next(iter(self._items))]
        log.error("%s will not retry %s for %d s: %s", self._job, what, pause, error)

    def discard(self, item: T) -> None:
        self._items.pop(item, None)

    def at(self, now: float) -> list[T]:
        """Return the items to leave alone at the time `now`."""
        old = [item for item, (until, _) in self._items.items() if until + _LONGEST_SECONDS < now]
        for item in old:
            del self._items[item]
        return [item for item, (until, _) in self._items.items() if until > now]
