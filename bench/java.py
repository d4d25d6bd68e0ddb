"""Generates load without librdkafka, using Kafka's own performance tools and transactional Java producers.

`kafka-producer-perf-test` and `kafka-consumer-perf-test` come with the Kafka version that Lacuna is compared with. They
run with their default settings and report the figures themselves, except the server's CPU time.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import BenchError
from bench.clients import RECORD_BYTES
from bench.figures import CPU_PER_GIB, GIBIBYTE, MEGABYTE, P99, THROUGHPUT, Row
from bench.kafka import jars
from bench.meter import Meter
from bench.rounds import Bench, Measured
from bench.target import Target
from bench.transactions import PRODUCERS, TRANSACTIONS, figures_of, work_of

PRODUCE = "kafka-producer-perf-test"
CONSUME = "kafka-consumer-perf-test"
SECONDS = 600.0

_PROGRAM = Path(__file__).with_name("java") / "Transactions.java"
_REPORT = re.compile(
    r"(\d+) records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\).* ([\d.]+) ms 99th"
)
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_MEBIBYTE = 1 << 20


def transactions_by(producers: int) -> str:
    return f"{work_of(producers)}, Java"


def java(bench: Bench) -> Iterator[Row]:
    """Yields rows for each of the two tools, and for transactions."""

    def run(target: Target, measured: Measured) -> None:
        topic = bench.topics(target).create("java")
        _produce(target, topic, bench.size.records, measured)
        bench.forget(target)
        _consume(target, topic, bench.size.records, measured)
        bench.topics(target).drop(topic)

    yield from bench.rounds([PRODUCE, CONSUME], run)
    for producers in PRODUCERS:

        def commit(target: Target, measured: Measured, producers: int = producers) -> None:
            topic = bench.topics(target).create(f"java-{producers}")
            _commit(target, topic, producers, bench.size.transaction_seconds, measured)
            bench.topics(target).drop(topic)

        yield from bench.rounds([transactions_by(producers)], commit)


def _java(*arguments: str) -> Sequence[str]:
    program = shutil.which("java")
    if program is None:
        raise BenchError("Java is not installed: install a JDK, version 17 or later")
    return [program, _QUIET, "-Xmx512m", "-cp", f"{jars()}/*", *arguments]


def _run(arguments: Sequence[str]) -> str:
    ran = subprocess.run(
        _java(*arguments), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if ran.returncode:
        raise BenchError(
            f"{arguments[0]} exited with status {ran.returncode}: {ran.stderr[-2_000:]}"
        )
    return ran.stdout


def _produce(target: Target, topic: str, records: int, measured: Measured) -> None:
    arguments = [
        "org.apache.kafka.tools.ProducerPerformance",
        f"--topic={topic}",
        f"--num-records={records}",
        f"--record-size={RECORD_BYTES}",
        "--throughput=-1",
        "--producer-props",
        f"bootstrap.servers={target.bootstrap}",
    ]
    with Meter(target) as meter:
        report = _run(arguments)
    found = _REPORT.search(report.strip().rpartition("\n")[2])
    if found is None or int(found[1]) != records:
        raise BenchError(
            f"the report of kafka-producer-perf-test has an unexpected format: {report[-500:]}"
        )
    figures = {
        THROUGHPUT: float(found[2]) * _MEBIBYTE / MEGABYTE,
        P99: float(found[3]),
        CPU_PER_GIB: meter.server_cpu_seconds / (records * RECORD_BYTES) * GIBIBYTE,
    }
    measured.add(meter, figures)


def _consume(target: Target, topic: str, records: int, measured: Measured) -> None:
    arguments = [
        "org.apache.kafka.tools.ConsumerPerformance",
        f"--topic={topic}",
        f"--messages={records}",
        f"--bootstrap-server={target.bootstrap}",
        "--timeout=60000",
    ]
    with Meter(target) as meter:
        report = _run(arguments)
    names, values = (line.split(", ") for line in report.strip().splitlines()[-2:])
    found = dict(zip(names, values, strict=True))
    if int(found["data.consumed.in.nMsg"]) < records:
        raise BenchError(
            f"the report of kafka-consumer-perf-test has an unexpected format: {report[-500:]}"
        )
    figures = {
        # Excludes the time for joining the group.
        THROUGHPUT: float(found["fetch.MB.sec"]) * _MEBIBYTE / MEGABYTE,
        CPU_PER_GIB: meter.server_cpu_seconds / (records * RECORD_BYTES) * GIBIBYTE,
    }
    measured.add(meter, figures)


def _commit(target: Target, topic: str, producers: int, seconds: float, measured: Measured) -> None:
    arguments = [str(_PROGRAM), target.bootstrap, topic, str(producers), str(seconds)]
    with subprocess.Popen(
        _java(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        if client.stdout.readline() != "ready\n":
            raise BenchError("the Java producers could not start; their errors are above")
        with Meter(target) as meter:
            client.stdin.write("\n")
            client.stdin.flush()
            took = [float(line) / 1000 for line in client.stdout]
    if client.returncode or not took:
        raise BenchError(f"the Java producers exited with status {client.returncode}")
    figures = figures_of(took, meter)
    # Taken from the client's own clock, since the meter also covers the end of its last commits and its output.
    figures[TRANSACTIONS] = len(took) / seconds
    measured.add(meter, figures)
