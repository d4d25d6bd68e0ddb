"""Several processes behind one port: workers of `lacuna agent`, which share it through SO_REUSEPORT."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lacuna.cli.console import fail
from lacuna.cli.running import READY, say

#: Set in a worker's environment: it shares its port.
WORKER = "LACUNA_WORKER"
_STOP_SECONDS = 15.0


def is_worker() -> bool:
    """Whether this process is one of several behind a port."""
    return WORKER in os.environ


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Holds a port (0: any) that workers may listen on, without listening. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            taken.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        yield int(taken.getsockname()[1])


class Supervisor:
    """Starts processes of this command, waits until they are ready, ends all when one ends or at Ctrl-C."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._ended = threading.Event()
        self._is_stopping = False

    def __enter__(self) -> "Supervisor":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stop_asked())
        return self

    def __exit__(self, *exception: object) -> None:
        # The last started first: agents before the control plane that they say goodbye to.
        for process in reversed(self._processes):
            _stop(process)

    def start(self, arguments: Sequence[str], ready: str, *, worker: bool = False) -> str:
        """Starts `lacuna ARGUMENTS` and returns the rest of its line that begins with `ready`."""
        environment = {**os.environ, WORKER: "1"} if worker else None
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C goes to the whole group of a terminal; we stop them, in order.
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ready):
                threading.Thread(target=self._wait, args=(process,), daemon=True).start()
                return line.removeprefix(ready).strip()
        fail(f"`lacuna {arguments[0]}` did not start; see its message above")

    def wait(self) -> None:
        """Returns at Ctrl-C; ends with an error where a process ended by itself."""
        self._ended.wait()
        if not self._is_stopping:
            codes = [process.poll() for process in self._processes]
            fail(f"a process ended by itself, so all end (exit codes {codes})")

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        self._ended.set()

    def _stop_asked(self) -> None:
        self._is_stopping = True
        self._ended.set()


def start_workers(
    supervisor: Supervisor, options: Sequence[str], host: str, port: int, count: int
) -> None:
    """Starts `count` workers of `lacuna agent OPTIONS` behind one port and waits."""
    with reserved_port(host, port) as taken:
        arguments = ["agent", *options, f"--listen={host}:{taken}"]
        for _ in range(count):
            bootstrap = supervisor.start(arguments, READY, worker=True)
        say(f"{READY}{bootstrap}")
        supervisor.wait()


def _stop(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
