"""Writes to a topic with Spark and reads it back, as a user's script does with the wheel installed."""

import json

from pyspark.sql.functions import col

from lacuna.pipeline.session import spark_session
from lacuna.testing import Cluster

if __name__ == "__main__":
    with (
        Cluster() as cluster,
        spark_session("beside", "local[2]", {"spark.driver.memory": "512m"}) as spark,
    ):
        cluster.create_topic("orders", partitions=2)
        given = spark.range(100, numPartitions=2).select(col("id").cast("string").alias("value"))
        options = {"data": str(cluster.data)}
        given.write.format("lacuna").options(**options, topic="orders").mode("append").save()
        rows = spark.read.format("lacuna").options(**options, subscribe="orders").load()
        values = [int(row[0]) for row in rows.select(col("value").cast("string")).collect()]
        print(json.dumps({"written": 100, "read": len(values), "sum": sum(values)}))  # noqa: T201
