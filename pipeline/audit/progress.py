"""How far an audit is, told to whoever shows it."""

import threading
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 0.2


class Progress:
    """Is told how far the audit is; this one keeps it to itself."""

    def step(self, text: str) -> None:
        """What happens now."""

    def total(self, size: int) -> None:
        """How many bytes are to be read."""

    def advance(self, size: int) -> None:
        """How many bytes have been read."""


class Watcher:
    """Passes on what tasks have done, from a thread of its own."""

    def __init__(self, done: Callable[[], int], progress: Progress) -> None:
        self._done = done
        self._progress = progress
        self._told = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more; what is done by now is told."""
        self._is_over.set()
        self._thread.join()
        self._tell()

    def _watch(self) -> None:
        while not self._is_over.wait(_SECONDS):
            self._tell()

    def _tell(self) -> None:
        done = self._done()
        self._progress.advance(done - self._told)
        self._told = done
