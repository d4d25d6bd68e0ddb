"""Several processes behind one port: the workers of `lacuna agent`, which share it through SO_REUSEPORT.

A child's standard input is a pipe that only the supervisor holds, so the child ends even if the supervisor is killed.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import click

from lacuna.agent.security.listeners import Listener
from lacuna.base.errors import ListenError, advice_on
from lacuna.cli.errors import fail
from lacuna.cli.running import READY, SOCKET, STOPPING, SUPERVISED, notify, say_ready
from lacuna.cli.tables import variables
from lacuna.logstore.objects.cluster_keys import COMMAND_VARIABLE
from lacuna.observing.siblings import Siblings

#: The variable that holds a worker's number.
WORKER = "LACUNA_WORKER"
#: The variables that a supervisor sets for all its processes: the folder in which they find each other, and a name.
WORKERS = "LACUNA_WORKERS_FOLDER"
NAME = "LACUNA_WORKER_NAME"
#: Longer than an agent needs to stop.
_STOP_SECONDS = 30.0


def is_worker() -> bool:
    """Whether this process is one of several workers behind one port."""
    return bool(os.environ.get(WORKER))


def siblings() -> Siblings | None:
    """Return the other processes of the same supervisor, or None if this process has no supervisor."""
    folder = os.environ.get(WORKERS)
    return Siblings(Path(folder), os.environ[NAME]) if folder else None


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Reserves a port for workers to listen on (0 for any free port), without listening on it. Yields the port.

    Raises ListenError if the host is not an address of this machine, or if a process already listens on the port: with
    SO_REUSEPORT, the kernel would let the workers share it with another command of the same user.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as alone, socket.socket(family) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Connections that remain from a single process that has just ended do not have SO_REUSEPORT.
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
            taken = int(alone.getsockname()[1])
            alone.close()
            shared.bind((host, taken))
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port}: {error.strerror}; "
                f"{advice_on(error, 'choose another address with --listen')}"
            ) from error
        yield taken


class Supervisor:
    """Starts `lacuna` processes and waits until they are ready. Ends all of them when one ends, or on Ctrl-C."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._workers: list[subprocess.Popen[str]] = []
        self._ended = threading.Event()
        self._folder = tempfile.TemporaryDirectory(prefix="lacuna-workers-")

    def __enter__(self) -> "Supervisor":
        _on_signals(_leave)
        if os.environ.get(SUPERVISED):
            threading.Thread(target=_end_with_parent, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        _on_signals(self._kill)
        notify(STOPPING)
        # Workers end before the control plane, to which they release their leases. They end together, since clients are
        # sent to the workers as long as one of them runs.
        _stop(self._workers)
        _stop(self._processes)
        self._folder.cleanup()

    def start(
        self,
        arguments: Sequence[str],
        ready: str,
        *,
        worker: str = "",
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Starts `lacuna ARGUMENTS`, waits for a line that begins with `ready`, and returns the rest of it.

        `worker` is the worker's number. `secrets` become environment variables, because any user of the machine can see
        arguments. If the process ends before it is ready, it has printed the reason, and this command ends as well.
        """
        # The arguments are complete: a worker must not read its parent's variables a second time.
        read = variables() - {COMMAND_VARIABLE}  # from which stores read the keys' command
        environment = {name: value for name, value in os.environ.items() if name not in read}
        environment.pop(SOCKET, None)  # this process notifies systemd for all of them
        environment |= {SUPERVISED: "1", **secrets}
        environment[WORKERS] = self._folder.name
        environment[NAME] = worker or arguments[0]
        if worker:
            environment[WORKER] = worker
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C reaches every process of the terminal's group, but the supervisor must stop them in order.
            start_new_session=True,
        )
        self._processes.append(process)
        if worker:
            self._workers.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ready):
                threading.Thread(target=self._wait, args=(process,), daemon=True).start()
                return line.removeprefix(ready).strip()
        if (code := process.wait()) < 0:
            fail(f"`lacuna {arguments[0]}` was ended by {signal.Signals(-code).name}: see its log")
        raise click.exceptions.Exit(code or 1)

    def siblings(self, name: str) -> Siblings:
        """Return the other processes, as seen from the process `name`. This process itself has no socket."""
        return Siblings(Path(self._folder.name), name)

    def wait(self) -> None:
        """Waits until a process ends, and then raises UserError. Ctrl-C also ends the wait."""
        self._ended.wait()
        ended = [process for process in self._processes if process.poll() is not None]
        fail("; ".join(_epitaph(process) for process in ended) + ": stopping all processes")

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        self._ended.set()

    def _kill(self) -> None:
        """Kill all processes, on a second Ctrl-C."""
        for process in self._processes:
            process.kill()


def start_workers(
    supervisor: Supervisor,
    options: Sequence[str],
    listeners: Sequence[Listener],
    count: int,
    ready: Callable[[str], None] = lambda bootstrap: say_ready(f"{READY}{bootstrap}"),
) -> None:
    """Starts `count` workers of `lacuna agent OPTIONS` behind the ports of its listeners.

    Calls `ready` with their bootstrap address once they have started, and then waits.
    """
    with ExitStack() as stack:
        taken = [
            replace(each, port=stack.enter_context(reserved_port(each.host, each.port)))
            for each in listeners
        ]
        arguments = ["agent", *options, f"--listen={','.join(map(str, taken))}"]
        for number in range(count):
            bootstrap = supervisor.start(arguments, READY, worker=str(number + 1))
        ready(bootstrap)
        supervisor.wait()


def _on_signals(handler: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: handler())


def _leave() -> None:
    raise click.exceptions.Exit(0)


def _end_with_parent() -> None:
    """Send SIGTERM to this process once the parent's pipe closes."""
    while os.read(sys.stdin.fileno(), 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(processes: "Sequence[subprocess.Popen[str]]") -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()  # SIGINT would make a process that is still importing print a traceback
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _epitaph(process: "subprocess.Popen[str]") -> str:
    code = process.returncode
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    return f"process {process.pid} {how}"
