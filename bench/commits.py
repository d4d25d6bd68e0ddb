"""Measures how many slices one control plane commits per CPU second: `python -m bench.commits`.

As in `bench.cluster`, the control plane is real: requests are parsed from bytes, decided, journaled in SQLite and
replayed, and replies and deltas are serialized to bytes. Each slice contains one batch of a transaction, each commit is
a separate append to the journal, and zero, one or three sessions watch each partition. CPU time is that of all threads;
the part that the event loop spends on appends is also reported. The journal is in `TMPDIR`.
"""

import argparse
import gc
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cluster import Driver
from bench.figures import GIBIBYTE
from bench.fleet import BATCH_BYTES, GROUP, TICK_MS, TRANSACTION_MS, Fleet, Load, Place
from lacuna.cli.running import run

SIZES: Final = (1, 5, 100, 1_000)
WATCHERS: Final = (0, 1, 3)
#: The number of slices that a round commits, and the maximum number of commits.
ROUND_SLICES: Final = 50_000
ROUND_COMMITS: Final = 2_000
ROUNDS: Final = 7


@dataclass(frozen=True, slots=True)
class Rate:
    """Microseconds of CPU per slice, in total and for appends to the journal.

    Both are the minimum of all rounds, because other processes can only increase them.
    """

    slices: int
    watchers: int
    all_us: float
    append_us: float

    def __str__(self) -> str:
        return (
            f"{self.slices:>5,} slices per commit, {self.watchers} watching: {self.all_us:6.2f} us per slice, of which "
            f"{self.append_us:5.2f} us for appends; {1e6 / self.all_us:>7,.0f} slices/s per core; without appends, "
            f"{1e6 / (self.all_us - self.append_us):>7,.0f}"
        )


async def _measure(slices: int, watchers: int, rounds: int, folder: Path) -> Rate:
    gibibytes = slices * BATCH_BYTES / 2 * 1000 / TICK_MS / GIBIBYTE
    load = Load(slices, TICK_MS, zones=1, agents=1, gibibytes=gibibytes)
    driver = Driver(folder)
    await driver.runtime.start()
    fleet = Fleet(load, [driver.line()])
    for step in (fleet.register, fleet.create, fleet.begin):
        step()
        await driver.exchange()
    (agent,) = fleet.agents
    agent.places = [
        Place(key, fleet.producers[index // GROUP]) for index, key in enumerate(fleet.keys)
    ]
    for _ in range(watchers):
        driver.line().subscribe(fleet.keys)
    await driver.exchange()
    measured = [await _round(driver, fleet) for _ in range(rounds + 1)][1:]
    await driver.close()
    all_us, append_us = (min(each) for each in zip(*measured, strict=True))
    return Rate(slices, watchers, all_us, append_us)


async def _round(driver: Driver, fleet: Fleet) -> tuple[float, float]:
    """Commits slices, and returns the microseconds per slice. Then ends the transactions, without measuring that."""
    before = driver.counts() | fleet.counts()
    for _ in range(max(1, min(ROUND_COMMITS, ROUND_SLICES // fleet.load.partitions))):
        fleet.flush(driver.clock.ms)
        await driver.exchange()
        driver.clock.advance()
    after = driver.counts() | fleet.counts()
    for phase_ms in range(0, TRANSACTION_MS, TICK_MS):
        fleet.end_transactions(phase_ms)
    await driver.exchange()
    gc.collect()
    us = {name: (after[name] - before[name]) * 1e6 for name in ("cpu", "journal loop cpu")}
    slices = after["slices"] - before["slices"]
    return us["cpu"] / slices, us["journal loop cpu"] / slices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, nargs="+", default=SIZES)
    parser.add_argument("--watchers", type=int, nargs="+", default=WATCHERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()

    async def measure() -> None:
        for watchers in arguments.watchers:
            for slices in arguments.slices:
                with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
                    rate = await _measure(slices, watchers, arguments.rounds, Path(folder))
                print(rate, flush=True)

    run(measure)
    print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
