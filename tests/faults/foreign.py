"""Runs clients in separate processes: librdkafka, kafka-clients and franz-go.

    load BOOTSTRAP TOPIC PARTITIONS NAME PAUSE

writes transactions under the transactional id NAME, aborts some of them, and waits for PAUSE milliseconds between two
of them.

    follow BOOTSTRAP TOPIC PARTITIONS GROUP PROTOCOL

reads as a member of GROUP, under the `classic` or the `consumer` protocol, and commits its position. If GROUP is empty,
it reads the partitions from offset 0, in small steps: first some records of each, and after a line on its standard
input the others. An offset out of range ends it.

Both run until their standard input ends, and print lines of JSON:

    {"values": {"0": ["java 0 0", ...], ...}}    the next transaction, by partition, before any of it is sent
    {"committed": [12.5, 12.6]}                  the CLOCK_MONOTONIC times of the commit's request and answer
    {"aborted": true}                            on purpose, or because the client required it
    {"record": [0, 7, "value"]}                  partition, offset, value
    {"assigned": [0, 1]}                         partitions; also "revoked" and "lost"
    {"fatal": "what"}                            the client is unusable; the program ends

The programs are in tests/compat/java and tests/compat/franz-go. For librdkafka, `follow.py` is the program, and
`load.TransactionalClient` runs in this process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from tests.compat import programs
from tests.compat.clients import chosen
from tests.compat.java.build import HERE as JAVA
from tests.compat.java.build import main as build_java

from .history import Transaction
from .load import SECONDS, Progress

#: The foreign clients, each with the programs without which it cannot be built.
NEEDS: Final = {"java": ("java", "mvn"), "franz-go": ("go",)}
ROOT: Final = Path(__file__).parents[2]
_KAFKA_CLIENTS: Final = "4.4.0"


def missing() -> list[str]:
    """Return the tools that are missing for building all clients."""
    return [program for needs in NEEDS.values() for program in needs if not shutil.which(program)]


def command(kind: str, program: str) -> list[str]:
    """Build a client's programs if their sources have changed. Return the command line for one of them."""
    if kind == "librdkafka":
        return [sys.executable, "-m", f"tests.faults.{program}"]
    if kind == "java":
        assert build_java() == 0
        libs = JAVA / "target" / "versions" / _KAFKA_CLIENTS / "target" / "libs"
        path = f"{JAVA / 'target' / 'classes'}:{libs}/*"
        main = f"lacuna.compat.{program.capitalize()}"
        return ["java", f"@{JAVA / 'jvm.options'}", "-cp", path, main]
    (row,) = chosen([kind])
    programs.build(row)
    return [str(row.out / program)]


class ForeignProcess:
    """A client's program, which runs from `start` to `stop`. `fatal` is the error that made it unusable."""

    def __init__(self, kind: str, program: str, *arguments: str) -> None:
        self.kind = kind
        self.fatal: list[str] = []
        self._command = [*command(kind, program), *arguments]
        self._said: deque[str] = deque(maxlen=100)
        self._process: subprocess.Popen[str]
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT
        )
        for read in (self._read, self._keep_errors):
            self._readers.append(threading.Thread(target=read, daemon=True))
            self._readers[-1].start()

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End the process once its current work is done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(2 * SECONDS)
        finally:
            self._process.kill()
        for reader in self._readers:
            reader.join()
        assert code == 0 or self.fatal, f"{self.kind} ended with {code}:\n{self.errors}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def errors(self) -> str:
        """Return the last lines that the program wrote to standard error."""
        return "\n".join(self._said)

    def hear(self, what: str, value: Any) -> None:
        """Process a line that the program printed. Subclasses must define it."""
        raise NotImplementedError

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            ((what, value),) = json.loads(line).items()
            if what == "fatal":
                self.fatal.append(f"{self.kind}: {value}\n{self.errors}")
            else:
                self.hear(what, value)

    def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(line.rstrip() for line in self._process.stderr)


class ForeignClient(ForeignProcess):
    """A transactional producer, with the interface of `load.TransactionalClient`."""

    def __init__(
        self,
        kind: str,
        bootstrap: str,
        topic: str,
        progress: Progress,
        partitions: int,
        pause: float = 0.0,
    ) -> None:
        pause_ms = str(round(1000 * pause))
        super().__init__(kind, "load", bootstrap, topic, str(partitions), kind, pause_ms)
        self.transactions: list[Transaction] = []
        self.commits: list[tuple[float, float]] = []
        self._progress = progress

    def hear(self, what: str, value: Any) -> None:
        if what == "values":
            values = {
                int(partition): [row.encode() for row in rows] for partition, rows in value.items()
            }
            self.transactions.append(Transaction(values=values))
            return
        self.transactions[-1].is_committed = what == "committed"
        if what == "committed":
            asked, answered = value
            self.commits.append((asked, answered))
        self._progress.add()


class Follower(ForeignProcess):
    """A consumer. `progress` counts records, and `events` contains the changes to its partitions."""

    def __init__(
        self, kind: str, bootstrap: str, topic: str, partitions: int, group: str, protocol: str
    ) -> None:
        super().__init__(kind, "follow", bootstrap, topic, str(partitions), group, protocol)
        self.name = f"{kind} in a {protocol} group" if group else kind
        self.progress = Progress()
        self.rows: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
        self.events: list[tuple[str, list[int]]] = []
        #: When records of each partition came, by the monotonic clock.
        self.times: dict[int, list[float]] = {p: [0.0] for p in range(partitions)}
        #: When it got partitions.
        self.assigned: list[float] = []

    def hear(self, what: str, value: Any) -> None:
        if what == "record":
            partition, offset, row = value
            self.rows[partition].append((offset, row.encode()))
            self.times[partition].append(time.monotonic())
            self.progress.add()
        else:
            if what == "assigned":
                self.assigned.append(time.monotonic())
            self.events.append((what, value))

    def await_more(self, count: int) -> None:
        """Wait for this many more records."""
        is_there = self.progress.wait_for(self.progress.count + count, SECONDS)
        assert is_there, f"{self.kind} reads no more:\n{self.errors}"
