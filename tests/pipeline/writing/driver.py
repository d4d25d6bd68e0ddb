"""A driver to be killed: `python driver.py DATA TOPIC CHECKPOINT ROWS [fails]` runs an endless streaming query.

Micro-batch n contains ROWS numbers, starting at n * ROWS. With `fails`, the first attempt at every task fails halfway.
The driver prints a line for each completed micro-batch.
"""

import sys
import time

from pyspark import TaskContext
from pyspark.sql.functions import udf

from lacuna.pipeline.session import spark_session

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


def fail_once(value: int) -> str:
    """Return the number as text. Raises halfway through a first attempt."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0 and value % 10 == 7:
        raise RuntimeError("the first attempt fails")
    return str(value)


def main(data: str, topic: str, checkpoint: str, rows: str, fails: str = "") -> None:
    with spark_session("driver", "local[2,4]", SETTINGS) as spark:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
        text = udf(fail_once, "string")("value") if fails else source["value"].cast("string")
        frame = source.repartition(2).select(text.alias("value"), text.alias("key"))
        query = (
            frame.writeStream.format("lacuna")
            .option("data", data)
            .option("topic", topic)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        done = -1
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > done:
                done = progress["batchId"]
                sys.stdout.write(f"done {done}\n")
                sys.stdout.flush()
            time.sleep(0.05)
        raise SystemExit(str(query.exception()))


if __name__ == "__main__":
    main(*sys.argv[1:])
