"""Transactional producers in other languages, as processes: kafka-clients and franz-go.

    PROGRAM BOOTSTRAP TOPIC PARTITIONS NAME PAUSE

writes transactions under the transactional id NAME, some of which it aborts, until its standard input ends. It waits
for PAUSE milliseconds between two of them, and prints lines of JSON:

    {"values": {"0": ["java 0 0", ...], ...}}    the next transaction, by partition, before any of it is sent
    {"committed": [12.5, 12.6]}                  when the commit was asked for and answered, by CLOCK_MONOTONIC
    {"aborted": true}                            on purpose, or because the client said that it must be
    {"fatal": "what"}                            the client can only be thrown away; the program ends

The programs are `Load.java` in tests/compat/java, and tests/compat/franz-go/load.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections import deque
from typing import Final

from tests.compat import programs
from tests.compat.clients import chosen
from tests.compat.java.build import HERE as JAVA
from tests.compat.java.build import main as build_java

from .history import Transaction
from .load import SECONDS, Progress

#: The clients, each with the programs without which it cannot be built.
NEEDS: Final = {"java": ("java", "mvn"), "franz-go": ("go",)}
_KAFKA_CLIENTS: Final = "4.4.0"


def missing() -> list[str]:
    """The programs without which not all clients can be built."""
    return [program for needs in NEEDS.values() for program in needs if not shutil.which(program)]


def command(kind: str) -> list[str]:
    """Builds a client's program if it has changed, and returns how it is called."""
    if kind == "java":
        assert build_java() == 0
        libs = JAVA / "target" / "versions" / _KAFKA_CLIENTS / "target" / "libs"
        path = f"{JAVA / 'target' / 'classes'}:{libs}/*"
        return ["java", f"@{JAVA / 'jvm.options'}", "-cp", path, "lacuna.compat.Load"]
    (row,) = chosen([kind])
    programs.build(row)
    return [str(row.out / "load")]


class ForeignClient:
    """One such process, with the interface of `load.TransactionalClient`."""

    def __init__(
        self,
        kind: str,
        bootstrap: str,
        topic: str,
        progress: Progress,
        partitions: int,
        pause: float = 0.0,
    ) -> None:
        self.kind = kind
        self.transactions: list[Transaction] = []
        self.commits: list[tuple[float, float]] = []
        self.fatal: list[str] = []
        self._progress = progress
        pause_ms = str(round(1000 * pause))
        self._command = [*command(kind), bootstrap, topic, str(partitions), kind, pause_ms]
        self._said: deque[str] = deque(maxlen=100)
        self._process: subprocess.Popen[str]
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        """Starts the process."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        for read in (self._read, self._keep_errors):
            self._readers.append(threading.Thread(target=read, daemon=True))
            self._readers[-1].start()

    def stop(self) -> None:
        """Ends the process after the transaction under way."""
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
    def errors(self) -> str:
        """The last lines that it has written to standard error."""
        return "\n".join(self._said)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "values" in told:
                values = {
                    int(partition): [value.encode() for value in rows]
                    for partition, rows in told["values"].items()
                }
                self.transactions.append(Transaction(values=values))
                continue
            if "fatal" in told:
                self.fatal.append(f"{self.kind}: {told['fatal']}\n{self.errors}")
                continue
            self.transactions[-1].is_committed = "committed" in told
            if "committed" in told:
                asked, answered = told["committed"]
                self.commits.append((asked, answered))
            self._progress.add()

    def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(line.rstrip() for line in self._process.stderr)
