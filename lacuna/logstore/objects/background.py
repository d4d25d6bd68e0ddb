"""Work that no caller waits for, in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

Job: TypeAlias = Callable[[], None]
"""Do what is due."""


class Background(Protocol):
    """Runs a job when it is woken. Two runs of a job never overlap."""

    def wake(self) -> None:
        """Let the job run soon, because there is work for it."""

    def stop(self) -> None:
        """Stop running the job, and return once its last run has ended."""


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
        except RuntimeError:  # no more threads can start for now; the next wake tries again
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
    """Runs the job in the thread that calls `wake`, so that a test sees a fixed order of events."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_stopped = False

    def wake(self) -> None:
        if not self._is_stopped:
            self._job()

    def stop(self) -> None:
        self._is_stopped = True
