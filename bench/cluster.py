"""Drives one control plane with the commands of a simulated fleet: `python -m bench.cluster`.

The control plane is real: its runtime, its SQLite journal, its snapshot processes, and the streams of its sessions,
with messages parsed from and serialized to bytes. Only HTTP/2 and sockets are missing. Agents and producers are
simulated (bench/fleet.py), and so is time, which passes as fast as the control plane can make its decisions. CPU time
is counted while the control plane works, and divided by the simulated seconds.

A full run updates the tables in docs/scale.md and the chart docs/cluster.svg.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench import BenchError, cluster_page, machine
from bench.fleet import TICK_MS, Fleet, Line, Load
from bench.fleet_housekeeping import Housekeeping
from bench.meter import resident_bytes
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.base.pace import LoopLoad, MeasuredPace
from lacuna.cli.running import run
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.journal.journal import HotSegment
from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.service import new_cluster_id
from lacuna.controlplane.state.state import State

START_MS: Final = 1_800_000_000_000
#: Merging does not touch records from the last part of a drive, if that part is shorter than `merge.min.age.ms`. The
#: last part is measured; by then, all agents are merging.
YOUNG_SHARE: Final = 0.25
MEASURED_SHARE: Final = 0.25
OUT: Final = Path(__file__).resolve().parent / "out"
IDLE_TURNS: Final = 3


@dataclass(frozen=True, slots=True)
class Amount:
    """How long to drive each load: until `slices` slices are committed, but at least `least_seconds` and at most
    `most_seconds`.
    """

    slices: int
    least_seconds: float
    most_seconds: float
    loads: dict[str, tuple[Load, ...]]


#: The rows of the page, by table.
GRID: Final = tuple(
    Load(partitions, interval_ms)
    for partitions in (1_000, 5_000, 20_000)
    for interval_ms in (100, 250, 1_000)
)
LIFTS: Final = (
    Load(5_000, 1_000, zones=20),
    Load(5_000, 250, zones=1),
    Load(5_000, 1_000, zones=1),
    Load(1_250, 250, agents=5, gibibytes=0.25),
    Load(10_000, 1_000, agents=40, gibibytes=2.0),
)
AMOUNTS: Final = {
    "smoke": Amount(0, 8, 8, {"fleet": (Load(40, 250, agents=4, gibibytes=0.01),)}),
    "quick": Amount(200_000, 8, 120, {"fleet": (Load(1_000, 250), Load(5_000, 1_000))}),
    "full": Amount(500_000, 24, 120, {"fleet": GRID, "lifts": LIFTS}),
}


class _Clock:
    """A clock that moves only in `advance`."""

    def __init__(self) -> None:
        self.ms = START_MS
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self.ms

    def passed_ms(self) -> float:
        return float(self.ms)

    async def sleep(self, duration_ms: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.ms + duration_ms, future))
        await future

    def advance(self) -> None:
        """Advances by one tick, and wakes the tasks that have slept long enough."""
        self.ms += TICK_MS
        due = [each for each in self._sleepers if each[0] <= self.ms]
        self._sleepers = [each for each in self._sleepers if each[0] > self.ms]
        for _, future in due:
            if not future.done():
                future.set_result(None)


class _CountedJournal(SqliteJournal):
    """A journal that counts its appends, their bytes, and the CPU time that they take in the event loop."""

    appends = 0
    size = 0
    loop_cpu = 0.0

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> "asyncio.Future[int]":
        self.appends += 1
        self.size += sum(map(len, records))
        started = time.thread_time()
        try:
            return super().append(records, fencing_token, hot)
        finally:
            self.loop_cpu += time.thread_time() - started


class Driver:
    def __init__(self, folder: Path) -> None:
        self.clock = _Clock()
        self.spent = {"cpu": 0.0, "loop cpu": 0.0, "view bytes": 0}
        self.state = State()
        self.fatal: list[BaseException] = []
        chance = random.Random(11)
        self.journal = _CountedJournal(
            str(folder / "journal.db"),
            lambda: new_cluster_id(lambda: chance.randbytes(16)),
            pace=MeasuredPace(LoopLoad()),
        )
        self.runtime = Runtime(
            self.journal,
            self.clock,
            lambda: chance.randbytes(16),
            RuntimeSettings(),
            snapshotter=SnapshotProcess(self.journal),
            prepare=self._keep,
            on_fatal=self.fatal.append,
        )
        self.lines: list[Line] = []
        self._open = 0
        self._all_answered = asyncio.Event()

    def _keep(self, state: State) -> None:
        self.state = state

    def line(self) -> Line:
        line = Line(self.runtime, self._answered)
        line.stream.add_done_callback(lambda _: self._all_answered.set())
        self.lines.append(line)
        return line

    def _answered(self, replies: int) -> None:
        self._open -= replies
        if self._open <= 0:
            self._all_answered.set()

    async def exchange(self) -> None:
        """Sends each agent's commands in a separate request, waits for the replies, and counts CPU time."""
        requests = [(line, *line.take()) for line in self.lines if line.has_request]
        if not requests:
            return
        self._open = sum(count for _, _, count in requests)
        self._all_answered.clear()
        cpu, loop_cpu = time.process_time(), time.thread_time()
        for line, data, _ in requests:
            line.send(data)
            await asyncio.sleep(0)
        if self._open > 0:
            await self._all_answered.wait()
            self._check_sessions()
        for _ in range(IDLE_TURNS):
            await asyncio.sleep(0)
        self.spent["loop cpu"] += time.thread_time() - loop_cpu
        self.spent["cpu"] += time.process_time() - cpu
        self.spent["view bytes"] += sum(line.settle() for line in self.lines)

    def _check_sessions(self) -> None:
        if ended := [line.stream for line in self.lines if line.stream.done()]:
            raise BenchError(f"a session has ended: {self.fatal or ended}")

    def counts(self) -> dict[str, float]:
        """Returns the totals so far: bytes, and CPU seconds of all threads and of the event loop's thread alone."""
        return {
            **self.spent,
            "appends": self.journal.appends,
            "journal loop cpu": self.journal.loop_cpu,
            "journal bytes": self.journal.size,
        }

    async def close(self) -> None:
        for line in self.lines:
            line.stream.cancel()
            with suppress(asyncio.CancelledError, ControlPlaneUnavailable):
                await line.stream
        await self.runtime.close()


def drive(load: Load, seconds: float) -> dict[str, Any]:
    """Drives a control plane in this process for some simulated seconds, and returns the figures.

    The process is set up like `lacuna controlplane`: event loop, garbage collector and malloc. Extents are merged once
    they are older than `merge.min.age.ms` or, if that is less, a quarter of the simulated time.
    """
    rows: list[dict[str, Any]] = []

    async def measure() -> None:
        with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
            rows.append(await _drive(load, seconds, Path(folder)))

    run(measure)
    if not rows:
        raise KeyboardInterrupt  # `run` has ended the work, and returns
    return rows[0]


async def _drive(load: Load, seconds: float, folder: Path) -> dict[str, Any]:
    gc.collect()
    memory = resident_bytes([os.getpid()])
    min_age_ms = min(MergeSettings().min_age_ms, int(seconds * 1000 * YOUNG_SHARE))
    driver = Driver(folder)
    await driver.runtime.start()
    fleet = Fleet(load, [driver.line() for _ in range(load.agents)])
    housekeeping = Housekeeping(fleet, driver.line(), min_age_ms, driver.clock.ms)
    for step in (housekeeping.open, fleet.register, fleet.create, fleet.begin, fleet.place):
        step()
        await driver.exchange()
    ticks = int(seconds * 1000 / TICK_MS)
    warm = int((1 - MEASURED_SHARE) * ticks)
    before: dict[str, float] = {}
    for tick in range(ticks):
        if tick == warm:
            before = driver.counts() | fleet.counts() | housekeeping.counts()
        fleet.flush(driver.clock.ms)
        housekeeping.step(driver.clock.ms)
        await driver.exchange()
        fleet.end_transactions(driver.clock.ms)
        await driver.exchange()
        driver.clock.advance()
    after = driver.counts() | fleet.counts() | housekeeping.counts()
    measured = (ticks - warm) * TICK_MS / 1000
    row: dict[str, Any] = {name: (after[name] - before[name]) / measured for name in after}
    gc.collect()
    row["memory"] = resident_bytes([os.getpid()]) - memory
    row["extents"] = sum(len(each.extents) for each in driver.state.partitions.values())
    row["gets for consumers"] = fleet.gets_an_object() * row["flushes"]
    await driver.close()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    row["snapshot cpu"] = (children.ru_utime + children.ru_stime) / seconds
    row["snapshot memory"] = children.ru_maxrss * 1024
    return {"load": asdict(load), "seconds": seconds, "min_age_ms": min_age_ms, **row}


def _alone(load: Load, seconds: float) -> dict[str, Any]:
    """Drives a load in a new process, so that the measured memory belongs to this load alone."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(drive, load, seconds).result()


def _seconds(load: Load, amount: Amount) -> float:
    wanted = round(amount.slices / load.slices_a_second)
    return min(max(wanted, amount.least_seconds), amount.most_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=AMOUNTS, default="full")
    parser.add_argument(
        "--out",
        type=Path,
        help="write the figures to this file, as JSON (default: bench/out/cluster-SIZE.json)",
    )
    arguments = parser.parse_args()
    amount = AMOUNTS[arguments.size]
    results: dict[str, Any] = {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": machine.machine(machine.speeds()),
        "rows": {},
    }
    out = arguments.out or OUT / f"cluster-{arguments.size}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    for table, loads in amount.loads.items():
        rows = results["rows"][table] = []
        for load in loads:
            rows.append(_alone(load, _seconds(load, amount)))
            results["load average"] = os.getloadavg()[2]
            out.write_text(json.dumps(results, indent=1))
            print(cluster_page.line(rows[-1]), flush=True)
    if arguments.size == "full":
        cluster_page.keep(results)


if __name__ == "__main__":
    main()
