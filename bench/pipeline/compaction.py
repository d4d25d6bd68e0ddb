"""Compaction of lz4 batches into lz4 batches, in MB of stored bytes read per second per core.

The input consists of transactions of 100 records over 4 partitions, none or half of which are aborted. Aborted
bytes are neither read nor counted. Every run has its own topic. "values" counts the bytes of the values as produced.
"""

from collections.abc import Iterator

from bench import BenchError, aborts
from bench.clients import RECORD_BYTES
from bench.figures import MEGABYTE, Better, Figure, Row
from bench.lacuna import Lacuna
from bench.meter import Meter
from bench.pipeline.batch import CODEC
from bench.pipeline.sizes import PipelineBench
from bench.pipeline.spark import CORES, WithSpark
from bench.rounds import Measured
from bench.target import Target
from lacuna.pipeline.compaction.job import Compaction
from lacuna.pipeline.compaction.settings import CompactionSettings
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.workers import Workers

SHARES = (0, 50)
INPUT = Figure("MB/s a core", Better.MORE)
VALUES = Figure("MB/s of values a core", Better.MORE)
INPUT_CPU = Figure("MB/CPU s, all together", Better.MORE)
BYTES_OUT = Figure("bytes out/in", Better.LESS)


def work_of(share: int) -> str:
    return f"compaction, {share} % aborted, {CODEC}"


def compaction(pipeline: PipelineBench) -> Iterator[Row]:
    """Yields a row for each share of aborted transactions."""
    for share in SHARES:

        def run(target: Target, measured: Measured, share: int = share) -> None:
            if isinstance(target, Lacuna):
                _compact(pipeline, target, share, measured)

        yield from pipeline.bench.rounds([work_of(share)], run)


def _compact(pipeline: PipelineBench, target: Lacuna, share: int, measured: Measured) -> None:
    bench = pipeline.bench
    topic = bench.topics(target).create(f"compaction-{share}")
    count = pipeline.size.compacted_transactions * 100 // (100 - share)
    committed = aborts.write(target, topic, count, share, compression_type=CODEC)
    bench.rest()
    location = find_cluster(data=str(target.data))
    with JobClient(location.require_control()) as control:
        job = Compaction(
            control,
            location.store,
            CompactionSettings(),
            Workers(lambda: pipeline.spark.session),
        )
        with Meter(WithSpark(target, pipeline.spark)) as meter:
            report = job.run([topic])
    work = report.work
    if report.refused or report.failed or not work.bytes_read:
        raise BenchError(f"compaction of {topic}: {report}")
    seconds = meter.seconds * CORES
    figures = {
        INPUT: work.bytes_read / seconds / MEGABYTE,
        VALUES: committed * RECORD_BYTES / seconds / MEGABYTE,
        INPUT_CPU: work.bytes_read / meter.server_cpu_seconds / MEGABYTE,
        BYTES_OUT: work.bytes_written / work.bytes_read,
    }
    measured.add(meter, figures)
    bench.topics(target).drop(topic)
