"""Threads for what would keep the event loop waiting."""

from concurrent.futures import ThreadPoolExecutor


class Threads(ThreadPoolExecutor):
    """An executor whose first thread starts at once, while an error still says that it cannot.

    Further ones start when they are needed. If one cannot, as memory or processes are short, those that run do its
    work too: Python's executor raises an error instead, while the work stays in its queue.
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
    """Has a thread started."""
