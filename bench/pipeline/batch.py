"""Reads a topic's committed records as a batch, counting them and adding up the lengths of their values.

One topic was written by one producer with the usual settings, without transactions. The others contain transactions of
100 records over 4 partitions, some of which are aborted, as in bench/aborts.py. Rates include only committed values.
The first two runs are discarded, and the page cache is warm. Lacuna has already merged the small extents, as it does a
minute after writing.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import functions

from bench import BenchError, aborts
from bench.clients import RECORD_BYTES
from bench.figures import GIBIBYTE, KILO_RECORDS, MEGABYTE, THROUGHPUT, Better, Figure, Row
from bench.lacuna import Lacuna
from bench.meter import Meter
from bench.pipeline.data import fill, settle
from bench.pipeline.sizes import PipelineBench
from bench.pipeline.spark import WithSpark
from bench.rounds import Measured
from bench.target import Target

CPU = Figure("CPU s/GiB, all together", Better.LESS)
BATCH_RECORDS = Figure("records/batch", Better.NEITHER)
CODEC = "lz4"
CLEAN = f"batch read, {CODEC}"


def work_of(share: int) -> str:
    return f"batch read, {share} % aborted, {CODEC}" if share else CLEAN


def batch(pipeline: PipelineBench) -> Iterator[Row]:
    """Yields a row for each target and share of aborted transactions."""

    def clean(target: Target, topic: str) -> tuple[int, float]:
        return pipeline.size.records, fill(target, topic, pipeline.size.records, CODEC)

    yield from _share(pipeline, 0, clean)
    for share, count in pipeline.size.transactions.items():

        def write(
            target: Target, topic: str, share: int = share, count: int = count
        ) -> tuple[int, float]:
            committed = aborts.write(target, topic, count, share, compression_type=CODEC)
            return committed, aborts.RECORDS / 4

        yield from _share(pipeline, share, write)


def _share(
    pipeline: PipelineBench, share: int, write: Callable[[Target, str], tuple[int, float]]
) -> Iterator[Row]:
    bench = pipeline.bench
    with bench.topic_each(f"batch-{share}") as topics:
        written = {each.label: write(each, topics[each.label]) for each in bench.targets}
        for target in bench.targets:
            if isinstance(target, Lacuna) and pipeline.size.settles:
                settle(target, topics[target.label])

        def run(target: Target, measured: Measured) -> None:
            committed, batch_records = written[target.label]
            with Meter(WithSpark(target, pipeline.spark)) as meter:
                count, size = read(pipeline, target, topics[target.label])
            if (count, size) != (committed, committed * RECORD_BYTES):
                raise BenchError(
                    f"{target.label}: read {count} records with {size} bytes of values, not {committed} records of "
                    f"{RECORD_BYTES} bytes each"
                )
            figures = {
                THROUGHPUT: size / meter.seconds / MEGABYTE,
                KILO_RECORDS: count / meter.seconds / 1000,
                CPU: meter.server_cpu_seconds / size * GIBIBYTE,
                BATCH_RECORDS: batch_records,
            }
            measured.add(meter, figures)

        def warm_up(target: Target) -> None:
            for _ in range(pipeline.size.warm_up_reads):
                run(target, Measured())

        yield from bench.rounds([work_of(share)], run, warm_up=warm_up)


def read(pipeline: PipelineBench, target: Target, topic: str) -> tuple[int, int]:
    """Reads a topic with Spark. Returns the number of its records and the bytes of their values."""
    frame = pipeline.spark.source(pipeline.spark.session.read, target, topic)
    row = frame.agg(functions.count("*"), functions.sum(functions.length("value"))).first()
    if row is None:
        raise BenchError("Spark returned no row for a sum")
    return int(row[0]), int(row[1] or 0)
