"""Ends a run that stands still, and shows where it does.

pytest-timeout fails a test from within Python, and once: a call that never returns to Python outlasts it, and so does
what a test that has failed leaves to its fixtures' ends. Nor does it watch the process that deals the tests out.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest


class Watch:
    """A plugin. Every test has `grace` seconds beyond its time limit, and as long again for its fixtures' ends.

    The process that deals tests out hears of one within `silence` seconds.
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
        """As faulthandler's own limit, which is the same for all tests."""
        self._watch_test(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Again, since pytest ends the watch where a test fails."""
        self._watch_test(item)

    def pytest_runtest_logreport(self) -> None:
        self._hear()

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
