"""Runs the benchmark: `python -m bench.run`, or `make bench` and `make bench-quick`.

Lacuna and Apache Kafka do the same work alternately on the same machine (see bench/rounds.py). Prints a table per
section, Lacuna's limits, the goals that are met, and the figures that have become worse since the last kept run of this
size. Writes all runs as JSON.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import BrokenBarrierError

from confluent_kafka import KafkaException

from bench import BenchError, machine, report
from bench.compare import worse
from bench.figures import Row
from bench.goals import judge
from bench.kafka import FSYNC, Kafka, KafkaMissing, KafkaTls
from bench.lacuna import Lacuna, LacunaGrpc, LacunaTls
from bench.limits import ends
from bench.results import Results
from bench.rounds import FULL, QUICK, SMOKE, Bench
from bench.sections import (
    BARE,
    KAFKA,
    KAFKA_4_4,
    KAFKA_FSYNC,
    KAFKA_TLS,
    LACUNA,
    LACUNA_GRPC,
    LACUNA_TLS,
    SECTIONS,
)
from bench.target import Bare, Foreign, Target
from bench.warming import warm

ROOT = Path(__file__).resolve().parent.parent
SIZES = {size.name: size for size in (SMOKE, QUICK, FULL)}
TARGETS: dict[str, Callable[[], Target]] = {
    LACUNA: Lacuna,
    LACUNA_GRPC: LacunaGrpc,
    KAFKA: Kafka,
    KAFKA_FSYNC: lambda: Kafka(FSYNC, KAFKA_FSYNC),
    KAFKA_4_4: lambda: Kafka(label=KAFKA_4_4, release="4.4.0"),
    LACUNA_TLS: LacunaTls,
    KAFKA_TLS: KafkaTls,
    BARE: Bare,
}
EVERYDAY = (LACUNA, KAFKA, BARE)
OUT = ROOT / "bench" / "out"
KEPT = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "aborted.svg"
SCALE_PICTURE = ROOT / "docs" / "scale.svg"


def main() -> None:
    signal.signal(signal.SIGTERM, exit_on_signal)
    arguments = _arguments()
    out = arguments.out
    before = Results.load(KEPT if arguments.size == FULL.name else out)
    if arguments.again:
        results = Results.load(out)
        if results is None:
            raise SystemExit(f"{out} has no results: run without --again")
        for name, rows in results.sections.items():
            _print_section(name, rows)
    else:
        merged = Results.load(out) if arguments.merge else None
        results = _run(arguments, merged or Results(arguments.size), out)
    _conclude(results, before)
    if arguments.keep:
        _keep(results)
    if results.facts["failures"]:
        raise SystemExit("some measurements failed; see above")


def _run(arguments: argparse.Namespace, results: Results, out: Path) -> Results:
    """Measures the chosen sections, and saves `results` to `out` after each."""
    size = SIZES[arguments.size]
    started = time.monotonic()
    earlier = {name: results.facts.get(name, {}) for name in ("measured", "targets")}
    results.facts = {"started": now(), **earlier, "failures": {}}
    results.facts["speeds"] = machine.speeds()
    results.facts["machine"] = machine.machine(results.facts["speeds"])
    results.facts["versions"] = machine.versions()
    results.facts["clients"] = machine.client_settings()
    print_facts(results, "machine", "versions")
    for name, settings in results.facts["clients"].items():
        print(f"{name}: {', '.join(f'{key}={value}' for key, value in settings.items())}")
    alone = [name for name in arguments.sections if not SECTIONS[name].targets]
    with ExitStack() as stack:
        targets = list(_start(stack, arguments))
        results.facts["targets"] |= {each.label: each.settings for each in targets}
        bench = Bench(targets, size)
        warm(bench)
        for name in arguments.sections:
            if name not in alone:
                _measure(name, bench, results)
                results.save(out)
    for name in alone:  # these start their own servers
        _measure(name, Bench((), size), results)
        results.save(out)
    results.facts["seconds"] = round(time.monotonic() - started)
    results.save(out)
    return results


def _measure(name: str, bench: Bench, results: Results) -> None:
    section = SECTIONS[name]
    collect(name, section.run(bench.among(section.targets)), results)


def collect(name: str, rows: Iterator[Row], results: Results) -> None:
    """Measures one section and prints its table. A failure is recorded, and the next sections still run."""
    results.sections.pop(name, None)
    try:
        for row in rows:
            results.sections.setdefault(name, []).append(row)
    except (BenchError, KafkaException, OSError, BrokenBarrierError) as error:
        results.facts["failures"][name] = str(error) or type(error).__name__
        print(f"\nFAILED  {name}: {results.facts['failures'][name]}")
    if name in results.sections:
        results.facts["measured"][name] = now()
        _print_section(name, results.sections[name])


def now() -> str:
    """Returns the time in UTC, for pages and files."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def exit_on_signal(number: int, frame: object) -> None:
    """Ends the run as Ctrl-C does, so that the servers are stopped and their data is deleted."""
    raise SystemExit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default=FULL.name)
    parser.add_argument("--sections", type=_names(SECTIONS), help="comma-separated")
    parser.add_argument("--targets", type=_names(TARGETS), help="comma-separated")
    parser.add_argument("--bootstrap", help="measure this server in addition to the targets")
    parser.add_argument(
        "--server-pid",
        type=int,
        default=0,
        help="the id of that server's process, whose CPU time is measured",
    )
    parser.add_argument("--label", default="foreign", help="the name of that server in the tables")
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure nothing, but report the contents of --out again",
    )
    parser.add_argument(
        "--merge", action="store_true", help="keep the other sections in --out unchanged"
    )
    parser.add_argument("--out", type=Path, help="default: bench/out/SIZE.json or SIZE-part.json")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="store a full run in docs/performance.json, and update the tables and plots in docs/",
    )
    arguments = parser.parse_args()
    if arguments.keep and arguments.size != FULL.name:
        parser.error("only a full run can be kept: omit --size")
    everyday = arguments.size != FULL.name
    usual = [name for name, section in SECTIONS.items() if section.everyday or not everyday]
    is_part = arguments.sections is not None and not arguments.merge and not arguments.again
    if arguments.out is None:
        arguments.out = OUT / f"{arguments.size}{'-part' if is_part else ''}.json"
    if arguments.sections is None:
        arguments.sections = usual
    if arguments.targets is None:
        arguments.targets = list(EVERYDAY if everyday else TARGETS)
    return arguments


def _names(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Returns an argparse type for names separated by commas, all of which must be in `known`."""

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if unknown := [name for name in names if name not in known]:
            there = ", ".join(known)
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; choose from {there}")
        return names

    return parse


def _start(stack: ExitStack, arguments: argparse.Namespace) -> Iterator[Target]:
    """Starts the targets that the chosen sections need. If Kafka is missing, prints a message and omits it."""
    wanted = {label for name in arguments.sections for label in SECTIONS[name].targets}
    for label in arguments.targets:
        if label in wanted:
            target = TARGETS[label]()
            try:
                yield stack.enter_context(target)
            except KafkaMissing as error:
                print(f"{label} is left out, so there are no ratios to it: {error}", flush=True)
            else:
                print(f"{label}: {target.settings}", flush=True)
    if arguments.bootstrap:
        yield Foreign(arguments.bootstrap, arguments.server_pid, arguments.label)


def print_facts(results: Results, *groups: str) -> None:
    for group in groups:
        for name, value in results.facts[group].items():
            print(f"{name}: {value}", flush=True)


def _print_section(name: str, rows: Sequence[Row]) -> None:
    print(f"\n== {name}: {report.runs_of(rows)}")
    print(report.in_columns(report.table(rows)))
    for line in report.remarks(rows):
        print(line)
    sys.stdout.flush()


def _conclude(results: Results, before: Results | None) -> None:
    if found := ends(results):
        print("\n== where it ends")
        print(report.in_columns(report.ends_table(found), report.ENDS_WORDS))
    print("\n== goals")
    for verdict in judge(results):
        print(report.verdict_line(verdict))
    if before is None:
        print("\nno kept run to compare with")
        return
    changes = list(worse(before, results))
    print(f"\n== worse than in the run of {before.facts['started']}, beyond noise")
    print("\n".join(map(str, changes)) or "nothing")
    if noise := [row for rows in results.sections.values() for row in rows if row.is_noise]:
        print(f"{len(noise)} rows are mostly noise from other load and were not compared")


def _keep(results: Results) -> None:
    """Stores this run as the one with which later runs are compared, and updates the tables and charts in docs/."""
    from bench import scale_plot
    from bench.plot import draw

    if missing := SECTIONS.keys() - results.sections.keys():
        names = ",".join(sorted(missing))
        raise SystemExit(
            f"not kept, because sections are missing: run with --sections={names} --merge"
        )
    results.save(KEPT)
    report.rewrite(PAGE, report.page_part(results, judge(results)))
    draw(results, PICTURE)
    scale_plot.draw(results, SCALE_PICTURE)
    kept = (KEPT, PAGE, PICTURE, SCALE_PICTURE)
    print("kept:", *(path.relative_to(ROOT) for path in kept))


if __name__ == "__main__":
    main()
