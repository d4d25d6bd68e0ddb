"""Helpers for the programs of tools: running a server process, polling it, and printing lines."""

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
    """The server answered with an error. The message is its text, and `code` is the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until(done: Callable[[], bool], what: Callable[[], str], seconds: float = SECONDS) -> None:
    """Poll until a condition holds, because servers send no notification. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s: {what()}")
        time.sleep(0.1)


class Server:
    """A process with an HTTP interface. It can be started, killed and started again, and `ask` sends requests to it.

    `base` is the prefix of all paths. The server is ready once the response to GET `ready` contains `says`. Its output
    goes to stderr.
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
        """Start the process. Raises TimeoutError if it does not answer, and RuntimeError if it ends."""
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
        """Kill the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def text(self, method: str, path: str, body: Any = None) -> str:
        """Return the text of the answer. Raises Refused and OSError."""
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
        """Return the JSON of the answer, or None if it is empty. Raises Refused and OSError."""
        said = self.text(method, path, body)
        return json.loads(said) if said else None


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser for the arguments that the runner passes to each program."""
    made = argparse.ArgumentParser(description=description)
    for name in ("--bootstrap", "--workload", "--prefix"):
        made.add_argument(name, required=True)
    return made


def tell(scenarios: Mapping[str, Callable[[], Said]]) -> None:
    """Run the scenarios in their order, and print a line for each."""
    for name, scenario in scenarios.items():
        sys.stdout.write(json.dumps({"scenario": name, **_verdict(scenario)}) + "\n")
        sys.stdout.flush()


def _verdict(scenario: Callable[[], Said]) -> dict[str, Any]:
    try:
        records, facts = scenario()
    except (Refused, OSError, RuntimeError, ValueError) as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000], "records": {}}
    return {"ok": True, "records": records, "facts": facts}
