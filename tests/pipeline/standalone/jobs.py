"""Jobs that tests run on a standalone Spark cluster, as user scripts: `jobs.py MASTER JOBS`.

They run on the Python that has the wheel. JOBS is JSON: [[JOB, ARGUMENT...], ...]. One application runs all of them and
prints their results as one line of JSON.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from lacuna.pipeline.session import spark_session

SETTINGS = {
    "spark.driver.memory": "512m",
    # Executors live for seconds; ours give only the driver such options.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def where(spark: SparkSession) -> dict[str, list[str]]:
    """Return the files of our packages that tasks import, and the workers' folders."""

    def look(numbers: Any) -> list[tuple[str, str]]:
        import os

        from pyspark import BarrierTaskContext

        BarrierTaskContext.get().barrier()  # so every core has one: none ends before the others begin
        from lacuna import logstore, pipeline

        return [(str(module.__file__), os.getcwd()) for module in (logstore, pipeline)]

    cores = spark.sparkContext.defaultParallelism
    found = spark.sparkContext.range(cores, numSlices=cores).barrier().mapPartitions(look).collect()
    files, folders = (sorted(set(each)) for each in zip(*found, strict=True))
    return {"files": files, "folders": folders}


def read(spark: SparkSession, data: str, topic: str) -> list[list[Any]]:
    """Return (partition, offset, value) of all committed records, read as a batch."""
    frame = spark.read.format("lacuna").option("data", data).option("subscribe", topic).load()
    return rows_of(frame)


def stream(spark: SparkSession, data: str, topic: str, checkpoint: str) -> list[list[Any]]:
    """Return (partition, offset, value) of the existing records that have not been read with this checkpoint."""
    found: list[list[Any]] = []
    frame = (
        spark.readStream.format("lacuna")
        .option("data", data)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.extend(rows_of(batch)))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(found)


def write(spark: SparkSession, data: str, topic: str, count: str) -> int:
    """Write `count` records with their numbers as values, in one transaction."""
    frame = spark.range(int(count), numPartitions=4).select(col("id").cast("string").alias("value"))
    frame.write.format("lacuna").option("data", data).option("topic", topic).mode("append").save()
    return int(count)


def pipe(
    spark: SparkSession, data: str, topic: str, to: str, checkpoint: str, options: dict[str, str]
) -> str | None:
    """Copy the existing records from topic to topic. Return the query's error, if any."""
    source = spark.readStream.format("lacuna").options(data=data, subscribe=topic, **options)
    sink = source.load().select("key", "value").writeStream.format("lacuna")
    sink = sink.options(data=data, topic=to, checkpointLocation=checkpoint)
    query = sink.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return str(error)
    return None


def filtered(spark: SparkSession, data: str, topic: str) -> Any:
    """Return the offsets from 3 onwards with a pushed filter, or the error if this Spark lacks that feature."""
    reader = spark.read.format("lacuna").options(data=data, subscribe=topic, pushdown="true")
    try:
        return sorted(row.offset for row in reader.load().filter("offset >= 3").collect())
    except AnalysisException as error:
        return str(error)


def rows_of(frame: DataFrame) -> list[list[Any]]:
    rows = frame.select("partition", "offset", col("value").cast("string")).collect()
    return sorted([row[0], row[1], row[2]] for row in rows)


JOBS: dict[str, Callable[..., object]] = {
    job.__name__: job for job in (where, read, stream, write, pipe, filtered)
}


def main(master: str, jobs: str) -> None:
    with spark_session("jobs", master, SETTINGS) as spark:
        results = [JOBS[job](spark, *arguments) for job, *arguments in json.loads(jobs)]
        print(json.dumps(results))  # noqa: T201 - for whoever started it


if __name__ == "__main__":
    main(*sys.argv[1:])
