"""Several processes behind one port: workers of `lacuna agent`, which share it through SO_REUSEPORT.

Each child's standard input is a pipe that only the supervisor holds, so that children end with it however
it ends.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer

from lacuna.addresses import join_address
from lacuna.agents import ListenError
from lacuna.cli.errors import fail
from lacuna.cli.running import READY, SUPERVISED, say

#: Set in a worker's environment: it shares its port.
WORKER = "LACUNA_WORKER"
_STOP_SECONDS = 15.0


def is_worker() -> bool:
    """Whether this process is one of several behind a port."""
    return bool(os.environ.get(WORKER))


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Holds a port (0: any) that workers may listen on, without listening.

    Raises ListenError where the host is not ours, and where anybody listens on the port already: with SO_REUSEPORT the
    kernel would let workers join those of another command of the same user.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as alone, socket.socket(family) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Connections of a single process that was here a moment ago do not share the port.
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
            taken = int(alone.getsockname()[1])
            alone.close()
            shared.bind((host, taken))
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with --listen"
            ) from error
        yield taken


class Supervisor:
    """Starts processes of this command, waits until they are ready, ends all when one ends or at Ctrl-C."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._ended = threading.Event()

    def __enter__(self) -> "Supervisor":
        _on_signals(_leave)
        if os.environ.get(SUPERVISED):
            threading.Thread(target=_end_with_parent, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        _on_signals(self._kill)
        # The last started first: agents before the control plane that they say goodbye to.
        for process in reversed(self._processes):
            _stop(process)

    def start(self, arguments: Sequence[str], ready: str, *, worker: bool = False) -> str:
        """Starts `lacuna ARGUMENTS` and returns the rest of its line that begins with `ready`.

        Where it ends instead, it has said why on the standard error output, and this command ends too.
        """
        environment = {**os.environ, SUPERVISED: "1"}
        if worker:
            environment[WORKER] = "1"
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
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
        if (code := process.wait()) < 0:
            fail(f"`lacuna {arguments[0]}` was ended by {signal.Signals(-code).name}")
        raise typer.Exit(code or 1)

    def wait(self) -> None:
        """Waits for Ctrl-C; ends with an error where a process ended by itself."""
        self._ended.wait()
        ended = [process for process in self._processes if process.poll() is not None]
        fail("; ".join(_epitaph(process) for process in ended) + ": all processes end")

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        self._ended.set()

    def _kill(self) -> None:
        """A second Ctrl-C: nobody wants to wait."""
        for process in self._processes:
            process.kill()


def start_workers(
    supervisor: Supervisor,
    options: Sequence[str],
    host: str,
    port: int,
    count: int,
    ready: Callable[[], None] | None = None,
) -> None:
    """Starts `count` workers of `lacuna agent OPTIONS` behind one port, calls `ready`, says so and waits."""
    with reserved_port(host, port) as taken:
        arguments = ["agent", *options, f"--listen={join_address(host, taken)}"]
        for _ in range(count):
            bootstrap = supervisor.start(arguments, READY, worker=True)
        if ready is not None:
            ready()
        say(f"{READY}{bootstrap}")
        supervisor.wait()


def _on_signals(handler: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: handler())


def _leave() -> None:
    """Ctrl-C: unwinds to the end of the supervisor, which stops its processes."""
    raise typer.Exit(0)


def _end_with_parent() -> None:
    """Waits for the end of the pipe that the parent holds; then it is as if somebody had ended us."""
    while os.read(sys.stdin.fileno(), 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.terminate()  # one that still imports would answer SIGINT with a trace
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _epitaph(process: "subprocess.Popen[str]") -> str:
    code = process.returncode
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"process {process.pid} {how}"
