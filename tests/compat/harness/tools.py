"""What the programs of tools share: a server as a process, waiting for what it does, and printing the lines."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SECONDS = 60.0
START_SECONDS = 120.0
#: What a scenario found: records by partition, and facts.
Said = tuple[dict[str, list[str]], dict[str, Any]]


class Refused(Exception):
    """The server's answer is an error; its text is the message, `code` the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until(done: Callable[[], bool], what: Callable[[], str], seconds: float = SECONDS) -> None:
    """Raises TimeoutError. A server tells nobody when it is done, so it is asked again and again."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s: {what()}")
        time.sleep(0.1)


class Server:
    """A process with an HTTP interface: `start`, `kill`, `start` again; `ask` speaks to it.

    `base` is what all paths begin with; it is ready once it answers GET `ready` with a text that has `says` in it.
    What it prints goes to stderr.
    """

    def __init__(
        self,
        command: Sequence[str],
        base: str,
        ready: str,
        environment: Mapping[str, str] | None = None,
        says: str = "",
    ) -> None:
        self._command = list(command)
        self._base, self._ready, self._says = base, ready, says
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises TimeoutError if it does not answer, RuntimeError if it ended."""
        process = subprocess.Popen(
            self._command, env=self._environment, stdout=sys.stderr, stdin=subprocess.DEVNULL
        )
        self._process = process

        def is_ready() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{self._command[0]} ended with {process.returncode}")
            try:
                return self._says in self.text("GET", self._ready)
            except (Refused, OSError):
                return False

        until(is_ready, lambda: f"{self._command[0]} does not answer", START_SECONDS)

    def kill(self) -> None:
        """As by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def text(self, method: str, path: str, body: Any = None) -> str:
        """The text of the answer. Raises Refused and OSError."""
        request = urllib.request.Request(
            f"{self._base}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from error

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer; None if it is empty. Raises Refused and OSError."""
        said = self.text(method, path, body)
        return json.loads(said) if said else None


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of what the runner passes to each program."""
    made = argparse.ArgumentParser(description=description)
    for name in ("--bootstrap", "--workload", "--prefix"):
        made.add_argument(name, required=True)
    return made


def tell(scenarios: Mapping[str, Callable[[], Said]]) -> None:
    """Runs the scenarios, by their names, in their order, and prints a line for each."""
    for name, scenario in scenarios.items():
        sys.stdout.write(json.dumps({"scenario": name, **_verdict(scenario)}) + "\n")
        sys.stdout.flush()


def _verdict(scenario: Callable[[], Said]) -> dict[str, Any]:
    try:
        records, facts = scenario()
    except (Refused, OSError, RuntimeError, ValueError) as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000], "records": {}}
    return {"ok": True, "records": records, "facts": facts}
