"""Measuring: wall time, CPU of the servers, and how much the neighbours disturb."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> set[int]:
    """The process `root` and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
    tree = {root}
    while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return tree


def cpu_seconds(pids: set[int]) -> float:
    """User and system time that these processes have used so far."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += int(fields[11]) + int(fields[12])
    return total * TICK_SECONDS


def machine_ticks() -> tuple[int, int]:
    """(busy, all) ticks of all cores."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


class Meter:
    """A context manager; afterwards `seconds`, `server_cpu_seconds` and `others_cpu_percent` are set.

    `others_cpu_percent` is what neither this process nor the server used, of all cores.
    """

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self.seconds = 0.0
        self.server_cpu_seconds = 0.0
        self.others_cpu_percent = 0.0

    def __enter__(self) -> Self:
        self._pids = process_tree(self._server_pid)
        self._cpu = cpu_seconds(self._pids)
        self._own = time.process_time()
        self._busy, self._all = machine_ticks()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._started
        pids = self._pids | process_tree(self._server_pid)
        self.server_cpu_seconds = cpu_seconds(pids) - self._cpu
        own = time.process_time() - self._own
        busy, everything = machine_ticks()
        others = (busy - self._busy) * TICK_SECONDS - own - self.server_cpu_seconds
        total = max((everything - self._all) * TICK_SECONDS, TICK_SECONDS)
        self.others_cpu_percent = max(0.0, 100 * others / total)

    def figures(self) -> dict[str, float]:
        """What was measured, by name."""
        return {
            "seconds": self.seconds,
            "server_cpu_seconds": self.server_cpu_seconds,
            "others_cpu_percent": self.others_cpu_percent,
        }
