"""Ends a run that hangs, and shows where it hangs.

pytest-timeout fails a test from within Python, and only once. It cannot end a call that never returns to Python, nor
fixture cleanup that hangs after a failed test. It does not watch the process that distributes the tests either.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest


class Watch:
    """A plugin. Every test has `grace` seconds beyond its time limit, and as long again for its fixtures' cleanup.

    The process that distributes tests notices a hang within `silence` seconds.
    """

    def __init__(self, config: pytest.Config, *, grace: float = 60, silence: float = 2_400) -> None:
        self._limit = float(config.getini("timeout"))
        self._grace = grace
        self._silence = silence
        self._deals_out = bool(
            config.getoption("numprocesses", None)
        )  # workers have no such number
        self._stderr = os.dup(2)  # where a test runs, it is pytest's own
        self._hear()

    def _watch(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, file=self._stderr, exit=True)

    def _watch_test(self, item: pytest.Item) -> None:
        marker = item.get_closest_marker("timeout")
        self._watch(self._grace + (self._limit if marker is None else float(marker.args[0])))

    def _hear(self) -> None:
        if self._deals_out:
            self._watch(self._silence)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start faulthandler's timer with this test's limit."""
        self._watch_test(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Start the watch again, since pytest ends it when a test fails."""
        self._watch_test(item)

    def pytest_runtest_logreport(self) -> None:
        self._hear()

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
