"""Runs tests in forks of the process that has collected them: `pytest --forks 4`, or `--forks 4 --whole-files`.

Each of pytest-xdist's workers imports and collects all tests again, which takes seconds of CPU and hundreds of MiB a
worker. A fork costs some milliseconds, so there can be more forks than cores, and tests that wait cost nothing.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import groupby, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from _pytest.config import create_terminal_writer

#: Of a fork, its number; another process has none.
NUMBER: Final = "PYTEST_FORK"


class Runner:
    """A plugin that runs the collected tests in `forks` processes. `begun` is called once the first ones exist.

    Each fork begins with an equal run of the tests, one after the other. One that has no more takes half of what the
    fork with the most has left. With `whole_files`, it takes the next file instead, so that none is set up twice.
    """

    def __init__(self, forks: int, begun: Callable[[], None], *, whole_files: bool = False) -> None:
        self._count = forks
        self._begun = begun
        self._whole_files = whole_files
        self._files: deque[list[int]] = deque()
        self._lanes: list[deque[int]] = []
        self._forks: dict[Connection, _Fork] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        failed_to_import = (
            session.testsfailed and not session.config.option.continue_on_collection_errors
        )
        if failed_to_import or session.config.option.collectonly or not session.items:
            return None  # pytest's own loop says so
        self._deal(session.items)
        session.config.pluginmanager.getplugin("terminalreporter").showfspath = False
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # the forks' are in it
        try:
            for number in range(len(self._lanes)):
                self._fork(session, number)
            self._begun()
            while self._forks:
                for connection in wait([*self._forks]):
                    assert isinstance(connection, Connection)
                    self._hear(session, connection)
        finally:
            self._end()
        assert session.shouldfail or session.shouldstop or not any([*self._lanes, *self._files])
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _deal(self, items: list[pytest.Item]) -> None:
        tests = len(items)
        count = min(self._count, tests)
        if self._whole_files:
            files = groupby(range(tests), key=lambda test: items[test].path)
            self._files = deque(list(file) for _, file in files)
            self._lanes = [deque() for _ in range(count)]
            return
        bounds = [tests * number // count for number in range(count + 1)]
        self._lanes = [deque(range(*each)) for each in pairwise(bounds)]

    def _fork(self, session: pytest.Session, number: int) -> None:
        ours, theirs = Pipe()
        faulthandler.cancel_dump_traceback_later()  # a fork that did this would wait for a thread that it lacks
        sys.stdout.flush()
        sys.stderr.flush()
        if not (pid := os.fork()):
            ours.close()
            for each in self._forks:
                each.close()
            _run(session, theirs, number)
        theirs.close()
        self._forks[ours] = _Fork(pid, number)

    def _hear(self, session: pytest.Session, connection: Connection) -> None:
        fork = self._forks[connection]
        hook = session.config.hook
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionResetError):
            self._close(connection)
            if fork.tests:
                self._bury(session, fork)
            elif fork.status:
                raise ChildProcessError(
                    f"fork {fork.number} ended with {fork.status}; its last words are above"
                ) from None
            return
        if kind == "next":
            stops = session.shouldfail or session.shouldstop
            test = None if stops else self._next(fork.number)
            if value is not None:
                fork.tests.remove(value)
            if test is not None:
                fork.tests.append(test)
            with suppress(BrokenPipeError):  # it has ended, which the next read shows
                connection.send(test)
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=value)
            # Where there is a node, as with pytest-xdist, the terminal expects tests of several files at a time.
            name = f"fork {fork.number}"
            report.node = SimpleNamespace(
                gateway=SimpleNamespace(id=name), _workerinfocache=f"[{name}]"
            )
            hook.pytest_runtest_logreport(report=report)
        else:
            text, filename, line, when, nodeid, location = value
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.warn_explicit(text, pytest.PytestWarning, filename, line)
            hook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": caught[0],
                    "when": when,
                    "nodeid": nodeid,
                    "location": location,
                }
            )

    def _next(self, number: int) -> int | None:
        """Return the next test of a lane, which is filled first if it is empty."""
        lane = self._lanes[number]
        if not lane and self._whole_files:
            lane.extend(self._files.popleft() if self._files else ())
        elif not lane:
            longest = max(self._lanes, key=len)
            lane.extendleft(longest.pop() for _ in range((len(longest) + 1) // 2))
        return lane.popleft() if lane else None

    def _bury(self, session: pytest.Session, fork: _Fork) -> None:
        """Report the test that ended its fork, and start another one for the next test."""
        item = session.items[fork.tests.popleft()]
        self._lanes[fork.number].extendleft(fork.tests)
        text = f"fork {fork.number} ended ({fork.status}) during {item.nodeid}; its last words are above"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        self._fork(session, fork.number)

    def _close(self, connection: Connection) -> None:
        fork = self._forks.pop(connection)
        connection.close()
        fork.status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])

    def _end(self) -> None:
        """End the forks of an interrupted run. Those that have their fixtures' ends before them finish them first."""
        for fork in self._forks.values():
            os.kill(fork.pid, signal.SIGINT)
        for connection in [*self._forks]:
            self._close(connection)


class _Fork:
    """A fork as its parent sees it: the test that it runs, and the one that it runs next."""

    def __init__(self, pid: int, number: int) -> None:
        self.pid = pid
        self.number = number
        self.status: int | None = None
        self.tests: deque[int] = deque()


def _run(session: pytest.Session, parent: Connection, number: int) -> None:
    """Run tests for as long as the parent names one, and end this process."""
    status = 1
    try:
        # What the parent does at its end is none of the fork's business, which has ends of its own.
        atexit._clear()
        _settle(session.config, number)
        session.config.pluginmanager.register(_Reporter(session.config, parent))
        with closing(parent), suppress(KeyboardInterrupt, BrokenPipeError, EOFError):
            with _torn_down(session):
                _run_tests(session, parent)
            status = 0
        atexit._run_exitfuncs()
    except BaseException as error:  # nothing may return into the parent's code
        sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_tests(session: pytest.Session, parent: Connection) -> None:
    def ask(ended: int | None) -> int | None:
        parent.send(("next", ended))
        answer: int | None = parent.recv()
        return answer

    current = ask(None)
    following = None if current is None else ask(None)
    while current is not None:
        session.config.hook.pytest_runtest_protocol(
            item=session.items[current],
            nextitem=None if following is None else session.items[following],
        )
        current, following = following, ask(current)


@contextmanager
def _torn_down(session: pytest.Session) -> Iterator[None]:
    try:
        yield
    finally:
        session._setupstate.teardown_exact(None)


def _settle(config: Any, number: int) -> None:
    """Give the fork what only one process may have: output, temporary folders, its number."""
    os.environ[NUMBER] = str(number)
    manager = config.pluginmanager
    capture = manager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    manager.unregister(name="terminalreporter")
    # pytest-timeout writes the stacks of a test that hangs here.
    stderr = SimpleNamespace(_tw=create_terminal_writer(config, sys.__stderr__))
    manager.register(stderr, "terminalreporter")
    factory = config._tmp_path_factory
    factory._basetemp = Path(factory.getbasetemp(), f"fork-{number}-{os.getpid()}")
    factory._basetemp.mkdir(mode=0o700)


class _Reporter:
    """Sends the parent what tests report."""

    def __init__(self, config: pytest.Config, parent: Connection) -> None:
        self._config = config
        self._parent = parent

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._parent.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        one = warning_message
        text = f"{one.category.__name__}: {one.message}"
        self._parent.send(("warning", (text, one.filename, one.lineno, when, nodeid, location)))
