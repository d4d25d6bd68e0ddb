"""Streaming latency, from produce() to foreachBatch, at 1,000 records per second and one trigger per second.

Latency is given in trigger intervals. A row counts as arrived when the Python driver has the rows of its batch. The
first seconds, which include the query's start, are discarded.
"""

import tempfile
import threading
import time
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from bench import BenchError
from bench.clients import STALL_SECONDS, percentile, producer
from bench.figures import Better, Figure, Row
from bench.latency import STAMP, send_stamped
from bench.meter import Meter
from bench.pipeline.sizes import PipelineBench
from bench.pipeline.spark import WithSpark
from bench.rounds import Measured
from bench.target import Target

RATE = 1_000
TRIGGER_SECONDS = 1.0
WORK = f"streaming read at {RATE:,}/s, trigger {TRIGGER_SECONDS:g} s"
P50 = Figure("p50 trigger intervals", Better.LESS)
P99 = Figure("p99 trigger intervals", Better.LESS)
CPU_PERCENT = Figure("% of a core, all together", Better.LESS)


def streaming(pipeline: PipelineBench) -> Iterator[Row]:
    with pipeline.bench.topic_each("streaming") as topics:

        def run(target: Target, measured: Measured) -> None:
            _measure(pipeline, target, topics[target.label], measured)

        yield from pipeline.bench.rounds([WORK], run)


class Arrivals:
    """Receives batches. `seconds` contains the (send time, latency) of each row, measured by this process's clock."""

    def __init__(self) -> None:
        self.seconds: list[tuple[float, float]] = []
        self._change = threading.Condition()

    def __call__(self, batch: DataFrame, _: int) -> None:
        rows = batch.select(sql.substring("value", 1, STAMP.size)).collect()
        now = time.perf_counter_ns()
        sent = [STAMP.unpack(row[0])[0] for row in rows]
        with self._change:
            self.seconds += [(at / 1e9, (now - at) / 1e9) for at in sent]
            self._change.notify_all()

    def wait(self, count: int) -> None:
        """Waits until `count` rows have arrived. Raises BenchError if they stop arriving, or if there are too many."""
        with self._change:
            while len(self.seconds) < count:
                before = len(self.seconds)
                self._change.wait_for(lambda: len(self.seconds) > before, STALL_SECONDS)  # noqa: B023 - waited for here
                if len(self.seconds) == before:
                    raise BenchError(f"only {before} of {count} records arrived from the query")
        if len(self.seconds) != count:
            raise BenchError(f"{len(self.seconds)} records arrived, not {count}")


def _measure(pipeline: PipelineBench, target: Target, topic: str, measured: Measured) -> None:
    arrivals = Arrivals()
    total = int(RATE * (pipeline.size.stream_warm_seconds + pipeline.size.stream_seconds))
    frame = pipeline.spark.source(
        pipeline.spark.session.readStream, target, topic, startingOffsets="latest"
    )
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        query = (
            frame.writeStream.foreachBatch(arrivals)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{TRIGGER_SECONDS:g} seconds")
            .start()
        )
        try:
            query.processAllAvailable()  # so that it has its first offsets
            with Meter(WithSpark(target, pipeline.spark)) as meter:
                began = send_stamped(producer(target), topic, total, RATE)
                arrivals.wait(total)
        finally:
            query.stop()
    from_then = began + pipeline.size.stream_warm_seconds
    kept = [took / TRIGGER_SECONDS for sent, took in arrivals.seconds if sent >= from_then]
    figures = {
        P50: percentile(kept, 0.5),
        P99: percentile(kept, 0.99),
        CPU_PERCENT: 100 * meter.server_cpu_seconds / meter.seconds,
    }
    measured.add(meter, figures)
