"""Compares the pipeline with Spark's own Kafka source: `python -m bench.pipeline.run`, or `make bench-pipeline`.

Lacuna and Apache Kafka contain the same records, and the same Spark session reads from them alternately (see
bench/rounds.py). Prints a table per section and the goals that are met, and writes all runs as JSON.
"""

import argparse
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from bench import BenchError, machine, report
from bench.figures import THROUGHPUT, Row
from bench.goals import Goal, judge
from bench.kafka import Kafka, KafkaMissing
from bench.lacuna import Lacuna
from bench.pipeline.batch import batch
from bench.pipeline.batch import work_of as read
from bench.pipeline.compaction import INPUT, SHARES, compaction
from bench.pipeline.compaction import work_of as compacted
from bench.pipeline.sizes import SIZES, PipelineBench
from bench.pipeline.spark import jars, open_spark, versions
from bench.pipeline.streaming import P50, WORK, streaming
from bench.results import Results
from bench.rounds import Bench
from bench.run import collect, exit_on_signal, now, print_facts
from bench.sections import KAFKA, LACUNA
from bench.target import Target
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.spark_errors import job_errors

Section = Callable[[PipelineBench], Iterator[Row]]

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "bench" / "out"
#: bench/goals.py explains goals.
GOALS = {
    "batch": (
        Goal(read(0), THROUGHPUT, 1.5, KAFKA),
        Goal(read(50), THROUGHPUT, 2.5, KAFKA),
        Goal(read(90), THROUGHPUT, 6.0, KAFKA),
    ),
    "compaction": tuple(Goal(compacted(share), INPUT, 80) for share in SHARES),
    "streaming": (Goal(WORK, P50, 1.5),),
}
#: The sections by name, each with its targets.
SECTIONS: dict[str, tuple[Section, tuple[str, ...]]] = {
    "batch": (batch, (LACUNA, KAFKA)),
    "streaming": (streaming, (LACUNA, KAFKA)),
    "compaction": (compaction, (LACUNA,)),
}


def main() -> None:
    signal.signal(signal.SIGTERM, exit_on_signal)
    arguments = _arguments()
    results = Results(arguments.size)
    results.facts = {"started": now(), "measured": {}, "failures": {}}
    results.facts["machine"] = machine.machine(machine.speeds())
    results.facts["versions"] = {**machine.versions(), **versions()}
    started = time.monotonic()
    with ExitStack() as stack:
        targets = list(start(stack, arguments.targets))
        results.facts["targets"] = {each.label: each.settings for each in targets}
        print_facts(results, "machine", "versions", "targets")
        with_kafka = any(each.label == KAFKA for each in targets)
        size = SIZES[arguments.size]
        bench = Bench(targets, size.rounds)
        for compares, names in groupby(arguments.sections, _compares):
            with open_spark(compares=compares, with_kafka=with_kafka) as spark:
                for name in names:
                    wanted = bench.among(SECTIONS[name][1])
                    collect(name, _rows(name, PipelineBench(wanted, spark, size)), results)
                    results.save(arguments.out)
    results.facts["seconds"] = round(time.monotonic() - started)
    results.save(arguments.out)
    print("\n== goals")
    for verdict in judge(results, GOALS):
        print(report.verdict_line(verdict))
    print(f"\n{results.facts['seconds']} s; all runs: {arguments.out}")
    if results.facts["failures"]:
        raise SystemExit("some measurements failed; see above")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--targets", nargs="+", choices=(LACUNA, KAFKA), default=[LACUNA, KAFKA])
    parser.add_argument("--out", type=Path, help="default: bench/out/pipeline-SIZE.json")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = OUT / f"pipeline-{arguments.size}.json"
    return arguments


def start(stack: ExitStack, labels: list[str]) -> Iterator[Target]:
    """Starts the targets. If Kafka or Spark's source for it is missing, prints a message and continues without it."""
    for label in labels:
        try:
            if label == KAFKA:
                jars()
            yield stack.enter_context(Kafka() if label == KAFKA else Lacuna())
        except KafkaMissing as error:
            print(f"{label} is left out: {error}", flush=True)


def _compares(section: str) -> bool:
    return KAFKA in SECTIONS[section][1]


def _rows(name: str, pipeline: PipelineBench) -> Iterator[Row]:
    """Yields a section's rows. Raises BenchError even for errors in Spark or in the pipeline."""
    section, _ = SECTIONS[name]
    try:
        with job_errors():
            yield from section(pipeline)
    except PipelineError as error:
        raise BenchError(str(error)) from error


if __name__ == "__main__":
    main()
