"""A sink for streams in tests: Parquet files and a checkpoint, with each row once."""

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lacuna.pipeline.datasource.bounds import TopicPartition

Records = dict[TopicPartition, dict[int, tuple[bytes | None, bytes | None]]]


class Sink:
    """One sink and its checkpoint, for any number of consecutive queries."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._rows = folder / "rows"
        self._checkpoint = folder / "checkpoint"
        self._batches_before = 0

    def start(self, frame: DataFrame, *, is_available_now: bool = False) -> StreamingQuery:
        """Start a query. Each trigger follows the previous one immediately."""
        self._batches_before = self._batches()
        writer = frame.writeStream.format("parquet").option("path", str(self._rows))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if is_available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def run(self, frame: DataFrame, seconds: int = 240) -> StreamingQuery:
        """Read everything that exists now."""
        query = self.start(frame, is_available_now=True)
        assert query.awaitTermination(seconds)
        return query

    def records(self) -> Records:
        """Return (key, value) by partition and offset. Fails if a row occurs twice."""
        found: Records = {}
        for row in self._spark.read.parquet(str(self._rows)).collect():
            partition = found.setdefault(TopicPartition(row.topic, row.partition), {})
            assert row.offset not in partition, row
            partition[row.offset] = (row.key, row.value)
        return found

    def wait_for_batch(self, query: StreamingQuery, count: int, seconds: float = 240) -> None:
        """Wait until the query has completed `count` batches, including earlier ones."""
        reached = self._batches_before + count
        end = time.monotonic() + seconds
        while self._batches() < reached:
            assert query.exception() is None
            assert time.monotonic() < end
            time.sleep(0.05)  # nobody tells of a batch

    def _batches(self) -> int:
        commits = self._checkpoint / "commits"
        return sum(path.name.isdecimal() for path in commits.iterdir()) if commits.exists() else 0
