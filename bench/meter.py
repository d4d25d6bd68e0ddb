"""Measures a server's wall time, CPU time and reads, and the load that other processes put on the machine."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from bench.target import Target

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2
_CPUCLOCK_PERTHREAD = 4
#: Indexes of cutime and cstime in /proc/PID/stat, counted from the field after the name.
_CHILDREN_TICKS = (13, 14)
_GONE = (FileNotFoundError, ProcessLookupError)


def process_tree(roots: Iterable[int]) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except _GONE:
                continue
            parents[int(entry.name)] = int(fields[1])
    tree = set(roots)
    while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return tree


def cpu_seconds(pids: Iterable[int]) -> float:
    """Returns the user and system time in seconds of these processes, including their finished threads.

    Finished children are included as well, but only to the precision of clock ticks. Otherwise, a concurrent snapshot
    would seem to cost nothing, or even to reduce the time.
    """
    total = 0
    ticks = 0
    for pid in pids:
        try:
            total += time.clock_gettime_ns(_cpu_clock(pid))
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        ticks += sum(int(fields[place]) for place in _CHILDREN_TICKS)
    return total / 1e9 + ticks * TICK_SECONDS


def _cpu_clock(pid: int) -> int:
    """Returns the id of a process's CPU clock in Linux, like clock_getcpuclockid(3), which Python lacks."""
    return (~pid << 3) | _CPUCLOCK_SCHED


def thread_seconds() -> dict[int, float]:
    """Returns the user and system time in seconds of each thread in this process, by Linux thread id."""
    seconds = {}
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended
            clock = _cpu_clock(int(name)) | _CPUCLOCK_PERTHREAD
            seconds[int(name)] = time.clock_gettime_ns(clock) / 1e9
    return seconds


def read_bytes(pids: Iterable[int]) -> int:
    """Returns the bytes that these processes have read: from files (or the page cache), by sendfile, and from sockets.

    The number is `rchar` in /proc/PID/io. While a consumer reads, it sends little, so nearly all these bytes come from
    the server's store.
    """
    return sum(int(line.split()[1]) for line in _lines(pids, "io", "rchar:"))


def resident_bytes(pids: Iterable[int], *, peak: bool = False) -> int:
    """Returns the resident memory of these processes in bytes or, with `peak`, the sum of their maximums so far."""
    name = "VmHWM:" if peak else "VmRSS:"
    return sum(int(line.split()[1]) * 1024 for line in _lines(pids, "status", name))


def _lines(pids: Iterable[int], file: str, start: str) -> Iterator[str]:
    for pid in pids:
        with suppress(*_GONE):
            lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
            yield from (line for line in lines if line.startswith(start))


def machine_ticks() -> tuple[int, int]:
    """Returns the (busy, total) ticks of all cores. Time that the hypervisor gave to other machines counts as busy."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


class Meter:
    """A context manager that measures its block, and sets its attributes afterwards.

    `others_percent` is the share of all cores used by processes other than this one and the target; up to
    `grain_percent` of it may be due to coarse clock ticks. `busiest_thread_seconds` is the most CPU time of any thread
    in this process that outlives the block. `counted` contains the target's own counts.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.seconds = 0.0
        self.server_cpu_seconds = 0.0
        self.busiest_thread_seconds = 0.0
        self.read_bytes = 0
        self.others_percent = 0.0
        self.grain_percent = 0.0
        self.counted: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._pids = process_tree(self._target.pids)
        self._cpu = cpu_seconds(self._pids)
        self._read = read_bytes(self._pids)
        self._counts = self._target.counts()
        self._threads = thread_seconds()
        self._own = time.process_time()
        self._busy, self._all = machine_ticks()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = time.perf_counter() - self._started
        busy, everything = machine_ticks()
        own = time.process_time() - self._own
        threads = thread_seconds()
        self.busiest_thread_seconds = max(
            seconds - self._threads.get(thread, 0.0) for thread, seconds in threads.items()
        )
        pids = self._pids | process_tree(self._target.pids)
        self.server_cpu_seconds = cpu_seconds(pids) - self._cpu
        self.read_bytes = read_bytes(pids) - self._read
        counts = self._target.counts()
        self.counted = {name: count - self._counts[name] for name, count in counts.items()}
        others = (busy - self._busy) * TICK_SECONDS - own - self.server_cpu_seconds
        total = max((everything - self._all) * TICK_SECONDS, TICK_SECONDS)
        self.others_percent = max(0.0, 100 * others / total)
        # Without the server's process ids, the server cannot be distinguished from other load.
        self.grain_percent = 100 * 2 * TICK_SECONDS / total if pids else 100.0
