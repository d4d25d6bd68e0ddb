"""Work that nobody waits for, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

Job: TypeAlias = Callable[[], None]
"""Do what is due."""


class Background(Protocol):
    """Runs a job when it is woken, and never two runs of it at the same time."""

    def wake(self) -> None:
        """Make the job run soon: there is something to do."""

    def stop(self) -> None:
        """Run the job no more; return once its last run has ended."""


class BackgroundThread:
    """Runs the job in a daemon thread, which the first `wake` starts."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._changed = threading.Condition()
        self._is_due = False
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        with self._changed:
            self._is_due = True
            if self._thread is None and not self._is_stopped:
                self._thread = self._started()
            self._changed.notify()

    def _started(self) -> threading.Thread | None:
        thread = threading.Thread(target=self._run, name="packs", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads can start for now: the next wake tries again
            return None
        return thread

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_due or self._is_stopped)
                if self._is_stopped:
                    return
                self._is_due = False
            self._job()


class AtOnce:
    """Runs the job in the thread that calls `wake`, so that a test sees things happen in one order."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_stopped = False

    def wake(self) -> None:
        if not self._is_stopped:
            self._job()

    def stop(self) -> None:
        self._is_stopped = True
