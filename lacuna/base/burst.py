"""Waits for the rest of a burst: data that arrives within a few iterations of the event loop is handled together."""


class Burst:
    """The data of one burst. Each iteration of the event loop reads the sockets again and calls `goes_on`."""

    __slots__ = ("_left", "_seen")

    def __init__(self, iterations: int) -> None:
        """Wait for at most this many iterations."""
        self._left = iterations
        self._seen = 0

    def goes_on(self, count: int) -> bool:
        """Whether the last iteration brought more, so that the next one may too. `count` is the total so far."""
        if count == self._seen or not self._left:
            return False
        self._seen = count
        self._left -= 1
        return True
