"""Simulates histories.

python -m tests.simulation --seeds 1000          1,000 seeds, starting at a random one
python -m tests.simulation --minutes 5           as many as fit
python -m tests.simulation --seed 57 --trace     one seed, as a table
python -m tests.simulation --two-leaders --seeds 10000    short histories with two simultaneous leaders
python -m tests.simulation --roaming --seeds 10000        short histories of a group whose members come and go
python -m tests.simulation --sharing --seeds 10000        short histories of a share group
python -m tests.simulation --streaming --seeds 10000      short histories of a streams group
python -m tests.simulation --importing --seeds 10000      short histories of importers that are killed
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Final

import click

from tests.simulation import hot
from tests.simulation.faults import shrink
from tests.simulation.hot import HOT_SAFEGUARDS
from tests.simulation.safeguards import ALL, SAFEGUARDS, seeds_until_found
from tests.simulation.world import (
    FORMS,
    IMPORTING,
    ROAMING,
    SHARING,
    STREAMING,
    TWO_LEADERS,
    WHOLE,
    Form,
    Result,
    World,
)

#: The lines of a summary, and how the names of their counts begin.
PREFIXES: Final = {
    "faults": "fault: ",
    "transactions": "transactions ",
    "producers fenced or ended": "fenced or ended: ",
    "hot segments": hot.PREFIX,
}
#: Where the seeds are that found each removal of a safeguard, and the head of their table.
PAGE: Final = Path(__file__).parents[2] / "docs" / "simulation.md"
TABLE: Final = "| safeguard | seeds | safeguard | seeds |\n|---|---|---|---|\n"
#: What the forms other than the whole one are histories of.
SHORT: Final = {
    TWO_LEADERS.name: "a small cluster, in which a standby takes over while another one leads",
    ROAMING.name: "a KIP-848 group whose members leave and join again, while answers get lost",
    SHARING.name: "a share group, whose members take records of transactions",
    STREAMING.name: "a streams group whose members leave and join again, while answers get lost",
    IMPORTING.name: "two importers of one topic, which are killed again and again",
}
#: Seeds that a worker runs before it reports.
CHUNK = 5


def main() -> None:
    """Parse the command line and run the seeds. Exits with 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, help="the first of them; drawn if it is not given")
    parser.add_argument("--minutes", type=float, help="how long to go on instead")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.set_defaults(form=WHOLE.name)
    for form, described in SHORT.items():
        parser.add_argument(
            FORMS[form].option.strip(),
            dest="form",
            action="store_const",
            const=form,
            help=f"short histories of {described}",
        )
    parser.add_argument("--seed", type=int, help="replay one seed")
    parser.add_argument("--without", default="", help="numbers of faults to leave out, as 2,3,5")
    parser.add_argument("--trace", action="store_true", help="print the history of the seed")
    parser.add_argument("--safeguards", action="store_true", help="take each safeguard away")
    parser.add_argument("--only", help="only this safeguard")
    parser.add_argument("--draw", action="store_true", help="draw the table of docs/simulation.md")
    arguments = parser.parse_args()
    if arguments.safeguards:
        found = remove_safeguards(arguments.only, arguments.seeds, arguments.jobs)
        if arguments.draw:
            draw_table(found)
        sys.exit(0 if all(found.values()) else 1)
    if arguments.seed is not None:
        without = [int(each) for each in arguments.without.split(",") if each]
        world = World(arguments.seed, without, FORMS[arguments.form])
        sys.exit(replay(world, is_traced=arguments.trace))
    first = secrets.randbelow(1 << 40) if arguments.first is None else arguments.first
    chunks = _chunks(first, arguments.seeds, arguments.minutes)
    sys.exit(run(chunks, FORMS[arguments.form], arguments.jobs))


def replay(world: World, *, is_traced: bool) -> int:
    """Run one history and print the findings. Return the exit code."""
    prepare()
    if is_traced:
        result, lines = world.traced()
        for line in lines:
            click.echo(line)
    else:
        result = world.run()
    for fault in result.faults:
        click.echo(f"fault {fault}")
    for violation in result.violations:
        click.echo(f"VIOLATION {violation}")
    click.echo(f"{result.seconds:.1f} s simulated, {result.steps} events; {_listed(result.counts)}")
    return 1 if result.violations else 0


def run(chunks: Iterator[range], form: Form, jobs: int) -> int:
    """Run many seeds and print a summary. Return the exit code."""
    began = time.monotonic()
    total = Summary(form)
    with ProcessPoolExecutor(jobs, initializer=prepare) as pool:
        waiting: set[Future[list[tuple[Result, float]]]] = set()
        while True:
            while len(waiting) < 2 * jobs and (chunk := next(chunks, None)):
                waiting.add(pool.submit(run_chunk, chunk, form.name))
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                for result, cpu in future.result():
                    total.add(result, cpu)
    total.print(time.monotonic() - began)
    return 1 if total.failed else 0


def remove_safeguards(only: str | None, most: int, jobs: int) -> dict[str, int]:
    """Print how many seeds it takes to detect that each safeguard is missing. Return the numbers, 0 if undetected."""
    names = [only] if only else [*ALL]
    seeds = {}
    with ProcessPoolExecutor(jobs, initializer=prepare) as pool:
        searches = [pool.submit(seeds_until_found, name, most) for name in names]
        for name, search in zip(names, searches, strict=True):
            found = search.result()
            seeds[name] = found[0] if found else 0
            text = f"{found[0]:>5} seeds: {found[1]}" if found else f"NOT FOUND in {most} seeds"
            click.echo(f"{name:<36}{text}")
    return seeds


def draw_table(seeds: Mapping[str, int]) -> None:
    """Write the seeds into the table of safeguards for whole histories and hot segments, and keep the other rows."""
    drawn = [*SAFEGUARDS, *HOT_SAFEGUARDS]
    before, after = PAGE.read_text().split(TABLE)
    rows, rest = after.split("\n\n", 1)
    cells = [each.strip() for row in rows.splitlines() for each in row.strip("| ").split("|")]
    known = {name: int(count) for name, count in zip(cells[::2], cells[1::2], strict=True) if name}
    known |= {name: count for name, count in seeds.items() if name in drawn and count}
    items = [f"{name} | {known[name]}" for name in drawn if name in known]
    half = (len(items) + 1) // 2
    left, right = items[:half], [*items[half:], " | "][:half]
    table = "\n".join(f"| {one} | {other} |" for one, other in zip(left, right, strict=True))
    PAGE.write_text(f"{before}{TABLE}{table}\n\n{rest}")


def _chunks(first: int, seeds: int, minutes: float | None) -> Iterator[range]:
    until = None if minutes is None else time.monotonic() + minutes * 60
    start, end = first, first + seeds
    while time.monotonic() < until if until is not None else start < end:
        stop = start + CHUNK if until is not None else min(start + CHUNK, end)
        yield range(start, stop)
        start = stop


def prepare() -> None:
    """Prepare a process for simulation: discard logs, and exclude modules from garbage collection."""
    logging.getLogger("lacuna").setLevel(logging.CRITICAL + 1)
    gc.freeze()


def run_chunk(seeds: range, form_name: str) -> list[tuple[Result, float]]:
    """Run some seeds. Return each result, with its faults minimized if it failed, and the CPU seconds it took."""
    form = FORMS[form_name]
    results = []
    for seed in seeds:
        began = time.process_time()
        result = World(seed, form=form).run()
        took = time.process_time() - began
        if result.violations:
            result.faults = shrink(
                result.faults,
                lambda without: bool(World(seed, sorted(without), form).run().violations),  # noqa: B023
            )
        results.append((result, took))
    return results


class Summary:
    """Combined statistics for many runs of one form."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.first: int | None = None
        self.runs = 0
        self.failed = 0
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self.steps = 0
        self.cpu = 0.0

    def add(self, result: Result, cpu: float) -> None:
        """Add one run, and print it if it failed."""
        self.runs += 1
        self.first = result.seed if self.first is None else min(self.first, result.seed)
        self.counts += result.counts
        self.seconds += result.seconds
        self.steps += result.steps
        self.cpu += cpu
        if not result.violations:
            return
        self.failed += 1
        drawn = World(result.seed, form=self._form).faults
        kept = {each.number for each in result.faults}
        without = ",".join(str(each.number) for each in drawn if each.number not in kept)
        click.echo(
            f"FAILED: python -m tests.simulation {self._form.option}--seed {result.seed} --without '{without}'"
        )
        for fault in result.faults:
            click.echo(f"    fault {fault}")
        for violation in result.violations[:3]:
            click.echo(f"    {violation}")

    def print(self, elapsed: float) -> None:
        """Print the summary."""
        click.echo(f"{self.runs} seeds from {self.first} on, {self.failed} failed")
        click.echo(
            f"{self.seconds / 3600:.2f} simulated hours, {self.steps:,} events in {elapsed:.0f} s, "
            f"{self.steps / max(self.cpu, 1e-9) * 60:,.0f} events a minute of one core"
        )
        rest = Counter(self.counts)
        for title, prefix in PREFIXES.items():
            found = {key: n for key, n in rest.items() if key.startswith(prefix)}
            rest -= Counter(found)
            named = Counter({key.removeprefix(prefix): n for key, n in found.items()})
            click.echo(f"{title}: {_listed(named) or 'none'}")
        click.echo(f"more: {_listed(rest)}")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{key} {count:,}" for key, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
