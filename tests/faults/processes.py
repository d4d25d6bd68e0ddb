"""Real processes that tests kill: control planes, agents and workers."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lacuna.controlplane.shared_service import ask_status
from lacuna.testing.ports import lasting_ports
from tests.forked import Started, start_process

START_SECONDS = 60.0
STOP_SECONDS = 60.0
ASK_SECONDS = 3.0
ROOT = Path(__file__).parents[2]
Heard = Callable[[str], None]


def end_by_exception() -> None:
    """Make SIGTERM raise an exception in this program, so that its child processes end with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class Process:
    """A command that tests kill and restart.

    `ready` is the start of the line that it prints when it is ready. With `listens`, it keeps the same address across
    restarts.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        *,
        ready: str = "",
        listens: bool = False,
        heard: Heard | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.lines: deque[str] = deque(maxlen=400)
        #: The HOST:PORT on which it listens, or "" if it does not.
        self.address = f"127.0.0.1:{lasting_ports(1)[0]}" if listens else ""
        self._command = [sys.executable, "-m", module, *arguments]
        self._ready = ready
        self._listens = listens
        self._heard = heard
        self._environment = {**os.environ, **(environment or {})}
        self._process: Started | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> Self:
        """Start the process and, if it has a `ready` line, wait for that line."""
        self.lines.append("--- start")
        where = [f"--listen={self.address}"] if self._listens else []
        self._process = start_process(
            [*self._command, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=self._environment,
        )
        assert self._process.stdout is not None
        said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout, said), daemon=True
        )
        self._reader.start()
        if self._ready:
            line = said.get(timeout=START_SECONDS)
            assert line, f"{self.name} did not start:\n{self.output}"
        return self

    @property
    def output(self) -> str:
        """Return the last lines of output, from this run and earlier ones."""
        return "\n".join(self.lines)

    def kill(self) -> None:
        """Kill the process with SIGKILL. Fails if the process has already ended by itself."""
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """End the process with SIGTERM, and check that it exits cleanly."""
        self._end(signal.SIGTERM, 0)

    def pause(self) -> None:
        """Pause the process with SIGSTOP: it stays alive but does not respond."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the paused process with SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self) -> str:
        """End the process and return its output, including its stack traces if it writes them on SIGUSR1."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)
            self._process.send_signal(signal.SIGTERM)
            assert self._reader is not None
            self._reader.join(ASK_SECONDS)
        return self.output

    def discard(self) -> None:
        """Kill the process, whatever its state."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _end(self, number: signal.Signals, expected: int) -> None:
        assert self._process is not None
        assert self._reader is not None
        self._process.send_signal(number)
        code = self._process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        assert code == expected, f"{self.name} ended with {code}:\n{self.output}"
        self._process = None

    def _read(self, stream: IO[str], said: queue.SimpleQueue[str]) -> None:
        """Read the output. Puts the `ready` line into `said`, and "" when the output ends."""
        with stream:
            for line in stream:
                self.lines.append(line.rstrip())
                if self._ready and line.startswith(self._ready):
                    said.put(line.rstrip())
                if self._heard is not None:
                    self._heard(line.rstrip())
        said.put("")


class Deployment:
    """A context manager that runs control planes and agents over one store, each in a separate process.

    `store` contains the `lacuna agent` options for the store, and `journal` the `lacuna controlplane` options for a
    shared journal. Alternatively, `journals` contains separate options for each control plane.
    """

    def __init__(
        self,
        data: Path,
        agents: int,
        store: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        control_planes: int = 1,
        journal: Sequence[str] = (),
        journals: Sequence[Sequence[str]] = (),
    ) -> None:
        self.controls = [
            Process(
                f"control plane {number}",
                "lacuna",
                ["controlplane", f"--data={data}", "--verbose", *options],
                ready="control plane: ",
                listens=True,
                environment=environment,
            )
            for number, options in enumerate(journals or [journal] * control_planes)
        ]
        self.control = self.controls[0]
        self.agents: list[Process] = []
        self._agents = agents
        self._store = store
        self._environment = environment

    @property
    def control_address(self) -> str:
        """Return the HOST:PORT of each control plane, separated by commas."""
        return ",".join(each.address for each in self.controls)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of the agents in order, separated by commas."""
        return ",".join(each.address for each in self.agents)

    @property
    def processes(self) -> list[Process]:
        """Return all processes, the control planes first."""
        return [*self.controls, *self.agents]

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._discard)
            for control in self.controls:
                control.start()
            for number in range(self._agents):
                self.agents.append(self._agent(number))
                self.agents[-1].start()
            undo.pop_all()
        return self

    def leader(self) -> Process:
        """Return the leading control plane, as any of them reports it. Waits until there is one."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            for control in self.controls:
                status = asyncio.run(ask_status(control.address))
                if status is not None and status.is_leader:
                    return control
            assert time.monotonic() < deadline, "no control plane leads"

    def _agent(self, number: int) -> Process:
        return Process(
            f"agent {number}",
            "lacuna",
            ["agent", f"--control={self.control_address}", *self._store],
            ready="bootstrap: ",
            listens=True,
            environment=self._environment,
        )

    def _discard(self) -> None:
        for process in self.processes:
            process.discard()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for process in reversed(self.processes):
                if error is None:
                    process.stop()
                else:
                    error.add_note(f"{process.name}:\n{process.output}")
        finally:
            self._discard()
