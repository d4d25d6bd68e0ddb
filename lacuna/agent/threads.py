"""Threads for work that would block the event loop."""

from concurrent.futures import ThreadPoolExecutor


class Threads(ThreadPoolExecutor):
    """An executor whose first thread starts at once, when an error can still be reported.

    Further threads start when they are needed. If one cannot start because memory or processes are short, the running
    ones do its work too. Python's executor would raise an error instead, and leave the work in its queue.
    """

    def __init__(self, most: int, name: str) -> None:
        """At most `most` threads. Raises RuntimeError if none can start."""
        super().__init__(most, name)
        self.submit(_nothing)

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


def _nothing() -> None:
    """Do nothing, so that a thread starts."""
