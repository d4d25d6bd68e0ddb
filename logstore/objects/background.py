"""Work that nobody waits for, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

Job: TypeAlias = Callable[[], float | None]
"""Does what is due. Gives the seconds after which it wants to be called whatever happens."""


class Background(Protocol):
    """Calls a job, never twice at a time."""

    def wake(self) -> None:
        """There is something to do."""

    def rest(self, seconds: float) -> None:
        """For the job: wait, but not while there is something new to do, or it is to end."""

    def stop(self) -> None:
        """Call it no more; on return it has ended."""


class BackgroundThread:
    """A thread, started when it is first needed. It does not keep the process alive."""

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
                self._thread = threading.Thread(target=self._run, name="put-log", daemon=True)
                self._thread.start()
            self._changed.notify()

    def rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_due or self._is_stopped, seconds)

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        wait_s: float | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_due or self._is_stopped, wait_s)
                if self._is_stopped:
                    return
                self._is_due = False
            wait_s = self._job()


class AtOnce:
    """The same in the thread that asks for it: for tests that want one order of things."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_stopped = False

    def wake(self) -> None:
        if not self._is_stopped:
            self._job()

    def rest(self, seconds: float) -> None:
        """Nobody is disturbed by what is done at once."""

    def stop(self) -> None:
        self._is_stopped = True
