"""The ages of producer ids, accurate to the hour."""

from array import array
from bisect import bisect_right

from lacuna.controlplane.state.settings import HOUR_MS, PRODUCER_ID_EXPIRATION_MS

_HOURS_KEPT = PRODUCER_ID_EXPIRATION_MS // HOUR_MS + 2


class IdAges:
    """The first producer id assigned in each hour, for just over a day, as columns."""

    __slots__ = ("firsts", "hours")

    def __init__(self) -> None:
        self.hours: array[int] = array("q")
        self.firsts: array[int] = array("q")

    def note(self, producer_id: int, now_ms: int) -> None:
        """Record the assignment of a producer id, which must be higher than all before it."""
        hour = now_ms // HOUR_MS
        if self.hours and hour <= self.hours[-1]:
            return
        self.hours.append(hour)
        self.firsts.append(producer_id)
        gone = bisect_right(self.hours, hour - _HOURS_KEPT)
        del self.hours[:gone], self.firsts[:gone]

    def is_old(self, producer_id: int, now_ms: int) -> bool:
        """Whether a producer id is so old that one of its idempotence windows may have expired."""
        row = bisect_right(self.firsts, producer_id) - 1
        if row < 0:
            return True
        return (self.hours[row] + 1) * HOUR_MS + PRODUCER_ID_EXPIRATION_MS <= now_ms
