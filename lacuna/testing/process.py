"""`lacuna up` as a separate process."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Self

#: On a machine that is busy with other tests, starting can take minutes.
START_SECONDS = 180.0
STOP_SECONDS = 60.0
READY = "bootstrap: "
SUPERVISED = "LACUNA_SUPERVISED"
_KEPT_LINES = 200


class ProcessFailedError(Exception):
    """The process did not become ready or did not end cleanly. The message ends with its last lines of output."""


class ProcessCluster:
    """Runs `lacuna up --data DATA` as a context manager. The port stays the same across `kill` and `start`.

    If `data` is None, a temporary folder is used and deleted at the end. `options` are passed on to the command.
    """

    _popen: ClassVar[Callable[..., Any]] = subprocess.Popen

    def __init__(self, data: Path | None = None, options: Sequence[str] = ()) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="lacuna-") if data is None else None
        self.data = data or Path(str(self._temporary and self._temporary.name))
        self._options = list(options)
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.bootstrap = ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self._process is not None:
                self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError if the process is not running."""
        if self._process is None:
            raise RuntimeError("the cluster is not running: call start() first")
        return self._process.pid

    @property
    def output(self) -> str:
        """The last 200 lines that the process wrote to standard output and standard error."""
        return "\n".join(self._lines)

    def start(self) -> None:
        """Start the process, unless it is already running, and wait until it is ready. Raises ProcessFailedError."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "lacuna", "up", "--no-console", "--data", str(self.data)]
        command += ["--listen", self._listen, *self._options]
        self.bootstrap = ""
        self._process = self._popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # This process holds the pipe, so that both processes end together even if this one is killed.
            env={**os.environ, SUPERVISED: "1"},
        )
        assert self._process.stdout is not None
        ready = threading.Event()
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout, ready), daemon=True
        )
        self._reader.start()
        ready.wait(START_SECONDS)
        if not self.bootstrap:
            self._end(signal.SIGKILL)
            raise ProcessFailedError(f"`lacuna up` did not start:\n{self.output}")
        self._listen = self.bootstrap

    def _read(self, stream: IO[str], ready: threading.Event) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip())
                if line.startswith(READY):
                    self.bootstrap = line.removeprefix(READY).strip()
                    ready.set()
        ready.set()

    def stop(self) -> None:
        """Stop the process with SIGINT. Raises ProcessFailedError if it does not end cleanly within 60 seconds."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the process if it is running, and start it with the same data and port."""
        if self._process is not None:
            self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("the cluster is not running: call start() first")
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ProcessFailedError(f"`lacuna up` did not end:\n{self.output}") from None
        finally:
            if process.stdin is not None:
                process.stdin.close()
            if self._reader is not None:
                self._reader.join(STOP_SECONDS)
        if number is signal.SIGINT and code != 0:
            raise ProcessFailedError(f"`lacuna up` exited with status {code}:\n{self.output}")
