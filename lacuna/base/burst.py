"""Waits for the rest of a burst: what arrives within a few iterations of the event loop is handled together."""


class Burst:
    """What has arrived of one burst. Each iteration of the event loop reads the sockets again and asks `goes_on`."""

    __slots__ = ("_left", "_seen")

    def __init__(self, iterations: int) -> None:
        """Wait for at most so many iterations."""
        self._left = iterations
        self._seen = 0

    def goes_on(self, count: int) -> bool:
        """Whether the last iteration has brought more, so that the next may too. `count` is all that has arrived."""
        if count == self._seen or not self._left:
            return False
        self._seen = count
        self._left -= 1
        return True
