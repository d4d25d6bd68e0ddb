"""Lacuna with a large log, created in seconds by writing only its journal, without any objects."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import BenchError
from bench.lacuna import Lacuna
from bench.meter import process_tree, resident_bytes
from bench.plane import prolong

JOURNAL = "journal.db"
SNAPSHOT_SECONDS = 120.0


class Prepared(Lacuna):
    """`lacuna up` with a journal that can be extended. `start_seconds` is how long the last start took."""

    def __init__(self, options: Sequence[str] = (), label: str = "lacuna") -> None:
        super().__init__(options, label)
        self.start_seconds = 0.0

    @property
    def journal(self) -> Path:
        return self.data / JOURNAL

    @property
    def snapshots(self) -> Path:
        return self.data / f"{JOURNAL}.snapshots"

    def _run(self) -> None:
        started = time.perf_counter()
        super()._run()
        self.start_seconds = time.perf_counter() - started

    def prolong(self, topic: str, aborted: int, *, one_in: int = 1) -> int:
        """Restarts the server with more transactions (bench.plane.small_transactions). Returns their size in the
        journal in bytes.
        """
        self._end()
        try:
            return prolong(self.journal, topic, aborted, one_in=one_in)
        finally:
            self._run()

    def resident(self) -> int:
        """Returns the server's resident bytes, without those of a process that takes a snapshot."""
        return resident_bytes(self.pids)

    def settle(self) -> None:
        """Waits for the process that takes a snapshot to end. Raises BenchError."""
        deadline = time.monotonic() + SNAPSHOT_SECONDS
        while process_tree(self.pids) != set(self.pids):
            if time.monotonic() > deadline:
                raise BenchError(f"the snapshot was not finished within {SNAPSHOT_SECONDS:.0f} s")
            time.sleep(0.1)

    def snapshot(self) -> int:
        """Restarts the server from a snapshot of everything. Returns the snapshot process's peak memory. Raises
        BenchError.
        """
        self._end()
        try:
            return make_snapshot(self.journal)
        finally:
            self._run()

    def snapshot_bytes(self) -> int:
        question = (
            "SELECT sum(length(state)) FROM snapshots GROUP BY position ORDER BY position DESC"
        )
        return _ask(self.snapshots, question)


def make_snapshot(journal: Path) -> int:
    """Takes a snapshot of the whole journal in its own process. Returns its peak memory in bytes. Raises BenchError."""
    position = _ask(journal, "SELECT max(position) FROM batches")
    command = [
        "-m",
        "lacuna.controlplane.journal.snapshotter",
        str(position),
    ]
    process = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as place:
        place.write(os.fsencode(journal))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"the snapshot process exited with status {process.returncode}")
    return usage.ru_maxrss * 1024


def _ask(database: Path, question: str) -> int:
    """Returns the number that a query selects, or 0 if it selects none."""
    connection = sqlite3.connect(database)
    try:
        (number,) = connection.execute(question).fetchone() or (0,)
        return int(number or 0)
    finally:
        connection.close()
