"""Tests the sink on S3, as test_batch_write.py does for a directory."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message
from pyspark.sql import SparkSession

from lacuna.testing import Cluster


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["moto"], indirect=True)
def test_a_write_to_s3(
    spark: SparkSession, cluster: Cluster, consume: Callable[..., list[Message]]
) -> None:
    topic = cluster.create_topic("on-s3", 2)
    frame = spark.range(500).selectExpr("string(id) AS key", "string(id) AS value").repartition(2)
    writer = frame.write.format("lacuna").mode("append").option("data", str(cluster.data))
    writer.option("topic", topic).save()
    found = sorted(int(m.value() or b"") for m in consume(cluster, topic, 2))
    assert found == list(range(500))
