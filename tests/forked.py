"""Starts `lacuna` commands as real processes, forked from a process that has done the imports
(tests/lacuna/forks.py).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE, STDOUT, TimeoutExpired
from typing import IO, Any, ClassVar, Self, TypeAlias

from lacuna.testing import ProcessCluster

LACUNA = (sys.executable, "-m", "lacuna")
FORKS = Path(__file__).parent / "lacuna" / "forks.py"
SECONDS = 60.0

Started: TypeAlias = "subprocess.Popen[Any] | Forked"


@cache
def _forks() -> socket.socket:
    """Return a socket to the forking process, which lives as long as this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, str(FORKS)], stdin=theirs.fileno())

    def end() -> None:
        ours.shutdown(socket.SHUT_WR)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()

    atexit.register(end)
    return ours


def start_process(command: Sequence[str], **options: Any) -> Started:
    """Start a process as `subprocess.Popen` does, except that `python -m lacuna` runs in a fork of a process that has
    imported it.

    Importing it each time would take 0.4 seconds of CPU time.
    """
    needs_its_own = "--moto" in command  # its server does
    if tuple(command[:3]) != LACUNA or needs_its_own:
        return subprocess.Popen(command, **options)
    return Forked(command, **options)


class Forked:
    """A fork, with the options and methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = False,
        errors: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.args = command
        self.returncode: int | None = None
        self._readings: list[_Reading] = []
        asked = {
            "arguments": list(command[3:]),
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
        }
        mode = "" if text else "b"
        with ExitStack() as passed:
            self.stdin, given = _end(passed, stdin, 0, "w" + mode, errors)
            self.stdout, out = _end(passed, stdout, 1, "r" + mode, errors)
            self.stderr, err = _end(
                passed, out if stderr == STDOUT else stderr, 2, "r" + mode, errors
            )
            self._status, status = os.pipe()
            passed.callback(os.close, status)
            socket.send_fds(_forks(), [json.dumps(asked).encode()], [given, out, err, status])
        self.pid = self._reported()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for file in (self.stdout, self.stderr, self.stdin):
            if file is not None:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, given: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `given`, and return the output up to its end. May be called again after TimeoutExpired."""
        self._readings = self._readings or [_Reading(self.stdout), _Reading(self.stderr)]
        if self.stdin is not None and not self.stdin.closed:
            with suppress(BrokenPipeError):  # it need not read everything, or has ended
                if given:
                    self.stdin.write(given)
                self.stdin.close()
        self.wait(timeout)
        for reading in self._readings:
            reading.join(timeout)
            if reading.is_alive():
                raise TimeoutExpired(self.args, timeout or 0)
        return self._readings[0].found, self._readings[1].found

    def send_signal(self, number: int) -> None:
        # It may have ended and been reaped a moment before its code is reported here.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        """Wait up to this many seconds for the exit code, and return it."""
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._reported())
            os.close(self._status)
        return self.returncode

    def _reported(self) -> int:
        """Return what the forking process writes next: the process id, then the exit status."""
        found = os.read(self._status, 8)
        assert found, "the process that forks has ended"
        return int.from_bytes(found, "big")


def _end(
    passed: ExitStack, asked: int | IO[Any] | None, number: int, mode: str, errors: str | None
) -> tuple[IO[Any] | None, int]:
    """Return our end of a pipe, if one is requested, and the fork's file, which `passed` closes if it is new."""
    if asked is None:
        return None, number
    if asked == PIPE:
        reading, writing = os.pipe()
        ours, theirs = (reading, writing) if number else (writing, reading)
        passed.callback(os.close, theirs)
        return open(ours, mode, errors=errors), theirs
    return None, asked if isinstance(asked, int) else asked.fileno()


class _Reading(threading.Thread):
    """Read a file to its end."""

    def __init__(self, file: IO[Any] | None) -> None:
        super().__init__(daemon=True)
        self._file = file
        self.found: Any = None
        self.start()

    def run(self) -> None:
        if self._file is not None:
            with self._file:
                self.found = self._file.read()


class ForkedCluster(ProcessCluster):
    """`lacuna up` in its own process."""

    _popen: ClassVar[Callable[..., Any]] = staticmethod(start_process)
