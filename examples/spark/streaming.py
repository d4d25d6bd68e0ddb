"""Turns orders into invoices exactly once, as a Spark stream: `python streaming.py FOLDER CHECKPOINT`.

FOLDER is the data folder of a running `lacuna up`; needs `pip install 'lacuna-log[spark]'` and Java 17 or 21. It reads
`orders`, whose keys are order numbers and whose values are net amounts in cents, straight from the folder, and writes
the gross amount of each order to `invoices`. Each micro-batch is one transaction. A later run with the same CHECKPOINT
continues where this one was stopped or killed.
"""

import sys

from pyspark.sql import SparkSession

import pyspark_lacuna  # noqa: F401  Spark's workers then run this Python

if __name__ == "__main__":
    data, checkpoint = sys.argv[1:]
    builder = SparkSession.builder.appName("invoices").master("local[1]")
    spark = builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
    reading = spark.readStream.format("lacuna").option("data", data)
    orders = reading.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    invoices = orders.selectExpr(
        "key", "CAST(CAST(CAST(value AS STRING) AS BIGINT) * 119 DIV 100 AS STRING) AS value"
    )
    writing = invoices.writeStream.format("lacuna").option("data", data)
    writing = writing.option("topic", "invoices").option("checkpointLocation", checkpoint)
    writing.start().awaitTermination()
