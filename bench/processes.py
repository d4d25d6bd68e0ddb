"""Starts servers as processes, waits for the line that reports that they are ready, and ends them."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

from bench import BenchError

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_KEPT_LINES = 40


class Process:
    """A running `lacuna` command or other module; `value` follows `ready` in the line that it prints once ready."""

    def __init__(self, arguments: Sequence[str], ready: str, module: str = "lacuna") -> None:
        self._ready = ready
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._told = threading.Event()
        self.value = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "LACUNA_SUPERVISED": "1",
            },  # it ends with this process, however this process ends
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._told.wait(START_SECONDS)
        if not self.value:
            self._process.kill()
            self._process.wait()
            self._close()
            raise BenchError(f"{module} {' '.join(arguments)} did not start:\n{self.said}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        """The last lines of the process's output."""
        return "\n".join(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line.rstrip())
                if line.startswith(self._ready):
                    self.value = line.removeprefix(self._ready).strip()
                    self._told.set()
        self._told.set()

    def _close(self) -> None:
        self._reader.join(STOP_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """Ends the process with SIGKILL if it is still running."""
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self) -> None:
        """Ends the process with SIGINT. Raises BenchError if it does not end cleanly."""
        self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise BenchError(
                f"process {self.pid} did not end within {STOP_SECONDS:.0f} s"
            ) from None
        finally:
            self._close()
        if code:
            raise BenchError(f"process {self.pid} exited with status {code}:\n{self.said}")
