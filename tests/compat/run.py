"""Runs the client matrix: `python -m tests.compat.run --help`."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException

from tests.compat.captured import capture
from tests.compat.clients import OUT, ClientFileError, Row, chosen, rows
from tests.compat.clusters import PROCESS_SHAPE, Address, Kafkas, lacuna
from tests.compat.composed import COMPOSE_SHAPE, SEEN_AS, composed
from tests.compat.results import keep, keep_expected
from tests.compat.running import Bench, Result, prepare, run_row
from tests.compat.security import Security
from tests.compat.verdicts import Outcome

_MARKS = {
    Outcome.SAME: "ok",
    Outcome.RIGHT: "ok (not so on Kafka)",
    Outcome.AS_KAFKA: "as Kafka",
    Outcome.UNSUPPORTED: "-",
    Outcome.DIFFERS: "DIFFERS",
    Outcome.NOT_RUN: "not run",
    Outcome.NOT_BUILT: "NOT BUILT",
}

#: What --cluster starts, how the page describes it, and where it sees the folder of what secures its listeners.
SHAPES = {
    "process": (lacuna, PROCESS_SHAPE, ""),
    "compose": (composed, COMPOSE_SHAPE, SEEN_AS),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the rows and end")
    parser.add_argument("--build", action="store_true", help="build the rows, run none")
    parser.add_argument("--only", default="", help="NAME or NAME@VERSION, separated by commas")
    parser.add_argument("--lacuna", action="store_true", help="on Lacuna alone")
    parser.add_argument("--kafka", action="store_true", help="on Kafka alone")
    parser.add_argument(
        "--captured", action="store_true", help="on Lacuna, beside what was captured on Kafka"
    )
    parser.add_argument("--lacuna-bootstrap", default="", help="a Lacuna that runs already")
    parser.add_argument(
        "--cluster",
        choices=SHAPES,
        default="process",
        help="what Lacuna runs as; process by default",
    )
    parser.add_argument("--kafka-bootstrap", default="", help="a Kafka that runs already")
    parser.add_argument("--keep", action="store_true", help="write the results of --only too")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time; 1 by default")
    parser.add_argument("--verbose", action="store_true", help="print where the outputs are")
    return parser


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if given.captured and (given.kafka or given.keep or given.kafka_bootstrap):
        parser.error("--captured runs no Kafka: leave --kafka, --keep and --kafka-bootstrap out")


@contextlib.contextmanager
def bench(arguments: argparse.Namespace) -> Iterator[tuple[Bench, str]]:
    """Start the clusters that are needed. Yield them with a description of Lacuna's."""
    OUT.mkdir(exist_ok=True)
    logs = OUT / "logs" / time.strftime("%H%M%S")
    folder = Path(tempfile.mkdtemp(prefix="lacuna-compat-"))
    logs.mkdir(parents=True, exist_ok=True)
    both = arguments.lacuna == arguments.kafka
    start, shape, seen_as = SHAPES[arguments.cluster]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        security = Security(folder / "security", seen_as)
        kafkas = stack.enter_context(Kafkas(folder, security, arguments.kafka_bootstrap))
        given = arguments.lacuna_bootstrap
        here = Address(given) if given else None
        if (both or arguments.lacuna) and not here:
            here = stack.enter_context(start(folder, security))
        is_captured = arguments.captured
        there = kafkas.address if (both and not is_captured) or arguments.kafka else None
        yield Bench(there, here, logs, security, is_captured), shape


def say(text: str) -> None:
    """Print a progress line immediately."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(result: Result, seconds: float, verbose: bool) -> None:
    """Print the verdicts of one row."""
    if result.whole is not None:
        say(f"{result.row.title}: {_MARKS[result.whole.outcome]}: {result.whole.what}")
        return
    cells = ", ".join(f"{name} {_MARKS[cell.outcome]}" for name, cell in result.cells.items())
    say(f"{result.row.title}: {cells} ({seconds:.0f} s)")
    for name, cell in result.cells.items():
        if cell.what and cell.outcome != Outcome.UNSUPPORTED:
            say(f"    {name}: {cell.what}")
    for side in result.sides:
        if side.ran.ended or verbose:
            say(f"    {side.ran.ended or 'ended'}; it wrote to {side.ran.stderr}")


def _run(row: Row, where: Bench, verbose: bool) -> Result | None:
    began = time.monotonic()
    try:
        result = run_row(row, where)
    except (KafkaException, RuntimeError) as error:
        say(f"{row.title}: FAILED: {error}")
        return None
    show(result, time.monotonic() - began, verbose)
    return result


def build(wanted: list[Row], jobs: int) -> int:
    """Build rows without running them, so that later runs start at once. Returns 0 even if a build fails, because the
    run reports it.
    """
    with ThreadPoolExecutor(jobs) as pool:
        for row, result in zip(wanted, pool.map(prepare, wanted), strict=True):
            whole = result and result.whole
            say(f"{row.title}: {f'{_MARKS[whole.outcome]}: {whole.what}' if whole else 'built'}")
    return 0


def main() -> int:
    """Run the matrix. Return the exit code, which is 0 if no client behaved differently."""
    parser = _parser()
    arguments = parser.parse_args()
    _check(parser, arguments)
    known = rows()
    try:
        names = arguments.only.split(",") if arguments.only else []
        wanted = chosen(names, known)
    except ClientFileError as error:
        say(str(error))
        return 2
    if arguments.list:
        for row in wanted if names else known:
            how = "by hand only" if row.by_hand else row.not_run
            say(f"{row.title}\t{row.kind}\tbeside Kafka {row.kafka}\t{how}")
        return 0
    if arguments.build:
        return build(wanted, arguments.jobs)
    with bench(arguments) as (where, shape), ThreadPoolExecutor(arguments.jobs) as pool:
        futures: list[Future[Result | None]] = [
            pool.submit(_run, row, where, arguments.verbose) for row in wanted
        ]
        results = [future.result() for future in futures]
    done = [result for result in results if result is not None]
    is_whole = where.kafka is not None and where.lacuna is not None
    if is_whole and (arguments.keep or not arguments.only):
        keep(done, known, shape)
        keep_expected(done)
        capture((each.row, each.prefix, each.sides[0]) for each in done if each.sides)
    bad = [result.row.title for result in done if result.failed]
    say(f"{len(wanted)} rows, {len(bad) + len(results) - len(done)} not as on Kafka {bad or ''}")
    return 1 if bad or len(done) < len(results) else 0


if __name__ == "__main__":
    sys.exit(main())
