"""`lacuna` commands as real processes, forked from one that has done the imports (tests/lacuna/forks.py)."""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from lacuna.testing import ProcessCluster

LACUNA = (sys.executable, "-m", "lacuna")
FORKS = Path(__file__).parent / "lacuna" / "forks.py"


@cache
def _forks() -> socket.socket:
    """The socket of the process that forks, which runs as long as this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, str(FORKS)], stdin=theirs.fileno())

    def end() -> None:
        ours.shutdown(socket.SHUT_WR)
        process.wait()

    atexit.register(end)
    return ours


class Popen(subprocess.Popen[Any]):
    """Starts processes as `subprocess.Popen` does, but forks `python -m lacuna` from a process that has imported it.

    The imports took 0.4 seconds of CPU each time. Files other than the standard ones are not passed on.
    """

    _status: int | None = None

    def _execute_child(self, args: Any, *others: Any) -> None:
        itself: Any = self
        if tuple(args[:3]) != LACUNA or "--moto" in args:  # moto's server needs a fresh process
            super()._execute_child(args, *others)  # type: ignore[misc]
            return
        folder, environment, pipes = others[4], others[5], others[9:15]
        asked = {
            "arguments": list(args[3:]),
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        redirected = (pipes[0], pipes[3], pipes[5])
        files = [number if file == -1 else file for number, file in enumerate(redirected)]
        self._status, status = os.pipe()
        socket.send_fds(_forks(), [json.dumps(asked).encode()], [*files, status])
        os.close(status)
        self.pid = self._reported()
        itself._child_created = True
        itself._close_pipe_fds(*pipes)

    def poll(self) -> int | None:
        return super().poll() if self._status is None else self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            return super().wait(timeout)
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        """The exit code, as soon as there is one within so many seconds."""
        assert self._status is not None
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._reported())
            os.close(self._status)
        return self.returncode

    def _reported(self) -> int:
        """What the process that forks writes next: the process id, then how the process ended."""
        assert self._status is not None
        found = os.read(self._status, 8)
        assert found, "the process that forks has ended"
        return int.from_bytes(found, "big")


class ForkedCluster(ProcessCluster):
    """`lacuna up` as a process of its own."""

    _popen = Popen
