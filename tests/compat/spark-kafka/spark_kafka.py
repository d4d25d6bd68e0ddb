"""Tests Spark's own Kafka source with read_committed (batches, splits and streams over holes) and its sink."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession

FEEDS = ("start", "middle", "end", "all", "mixed")
Records = dict[str, list[str]]


def text(value: bytes | None) -> str:
    """Return a key or value as the matrix prints it."""
    return "~" if value is None else bytes(value).decode()


def line(row: Row) -> str:
    """Return a record as the matrix prints it."""
    headers = ",".join(f"{header.key}:{text(header.value)}" for header in row.headers or ())
    return f"{text(row.key)}={text(row.value)}" + (f"|{headers}" if headers else "")


class Reading:
    """The scenarios on one cluster."""

    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str) -> None:
        self._spark, self._bootstrap, self._prefix = spark, bootstrap, prefix
        self._folder = Path(tempfile.mkdtemp(prefix="spark-kafka-"))
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}-spark"}
        )

    def options(self, names: Iterable[str]) -> dict[str, str]:
        """Return the options of the source for some topics."""
        return {
            "kafka.bootstrap.servers": self._bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(f"{self._prefix}-{name}" for name in names),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }

    def read(self, *names: str, **options: str) -> DataFrame:
        """Run a batch query."""
        every = {**self.options(names), **options}
        return self._spark.read.format("kafka").options(**every).load()

    def records(self, frame: DataFrame) -> Records:
        """Return the records by NAME/PARTITION in the order of offsets."""
        found: Records = {}
        for row in sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset)):
            name = f"{row.topic.removeprefix(self._prefix + '-')}/{row.partition}"
            found.setdefault(name, []).append(line(row))
        return found

    def batch(self) -> Records:
        """Read all feeds in one query."""
        return self.records(self.read(*FEEDS))

    def splits(self) -> Records:
        """Read with tasks whose offset ranges begin and end in holes."""
        return self.records(self.read("middle", "mixed", "end", minPartitions="12"))

    def by_timestamp(self) -> Records:
        """Read from the offset that ListOffsets returns to a time before all records."""
        first = json.dumps({f"{self._prefix}-mixed": {"0": 1}})
        return self.records(self.read("mixed", startingOffsetsByTimestamp=first))

    def _drain(self, checkpoint: str, *names: str, **options: str) -> Records:
        """Return what a stream reads from its checkpoint to the end."""
        found: list[Records] = []
        every = {**self.options(names), **options}
        stream = self._spark.readStream.format("kafka").options(**every).load()
        query = (
            stream.writeStream.foreachBatch(lambda frame, _: found.append(self.records(frame)))
            .option("checkpointLocation", str(self._folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        whole: Records = {}
        for records in found:
            for name, lines in records.items():
                whole.setdefault(name, []).extend(lines)
        return whole

    def stream(self) -> Records:
        """Read micro-batches that end in holes."""
        return self._drain("stream", "start", "middle", "end", "mixed", maxOffsetsPerTrigger="400")

    def _feed(self, value: str, kept: bool) -> None:
        self._producer.begin_transaction()
        for number in range(5):
            self._producer.produce(
                f"{self._prefix}-input", f"{value}{number}".encode(), b"k", partition=0
            )
        self._producer.flush()
        if kept:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def restart(self) -> Records:
        """Resume a stream from its checkpoint, including once over nothing but aborted records."""
        self._producer.init_transactions()
        found: Records = {"restart/0": []}
        for value, kept in (("first", True), ("aborted", False), ("last", True)):
            self._feed(value, kept)
            found["restart/0"].append(f"== {value}")
            found["restart/0"] += self._drain("restart", "input").get("input/0", [])
        return found

    def sink(self) -> Records:
        """Read with Spark what Spark wrote."""
        rows = [(f"k{number}".encode(), f"v{number}".encode()) for number in range(50)]
        frame = self._spark.createDataFrame(rows, "key binary, value binary").coalesce(1)
        topic = f"{self._prefix}-output"
        frame.write.format("kafka").option("kafka.bootstrap.servers", self._bootstrap).option(
            "topic", topic
        ).save()
        return self.records(self.read("output"))

    def scenarios(self) -> dict[str, Callable[[], Records]]:
        """Return the scenarios by name, in their order."""
        return {
            "batch": self.batch,
            "splits": self.splits,
            "by timestamp": self.by_timestamp,
            "stream": self.stream,
            "restart": self.restart,
            "sink": self.sink,
        }


def session(jars: str) -> SparkSession:
    """Return a small local session with Spark's Kafka source."""
    builder = SparkSession.builder.master("local[2]").appName("spark-kafka")
    settings = {
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--jars", "--bootstrap", "--workload", "--prefix"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    spark = session(arguments.jars)
    reading = Reading(spark, arguments.bootstrap, arguments.prefix)
    for name, scenario in reading.scenarios().items():
        try:
            said = {"ok": True, "records": scenario()}
        except Exception as error:  # whatever Spark raises is this scenario's verdict
            said = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000], "records": {}}
        sys.stdout.write(json.dumps({"scenario": name, **said}) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
