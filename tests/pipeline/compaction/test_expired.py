"""Tests that compaction removes records past their retention before retention has run."""

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from lacuna.pipeline.audit.logs import check_log
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, consumer_of, read_partition

DAY_MS = 86_400_000


def _produce(cluster: Cluster, topic: str, age_ms: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        stamp = int(time.time() * 1000) - age_ms
        producer.produce(topic, b"%d" % number, timestamp=stamp, partition=0)
    producer.flush(60)


def test_s13_what_expired_is_out_of_range_at_once(cluster: Cluster, compactor: Compactor) -> None:
    topic = cluster.create_topic("expired")
    _produce(cluster, topic, 8 * DAY_MS)
    _produce(cluster, topic, 0)
    report = compactor.run(topic, rewrites_all=True)
    assert report.work.expired_bytes_not_read > 0
    (log,) = compactor.logs(topic)
    assert (log.log_start_offset, log.high_watermark) == (10, 20)
    assert check_log(log) == []
    for first in (0, 3):
        with (
            consumer_of(cluster, topic, 0, first) as consumer,
            pytest.raises(KafkaException) as raised,
        ):
            _poll(consumer)
        assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    assert [read.offset for read in read_partition(cluster, topic)] == list(range(10, 20))


def _poll(consumer: Consumer) -> None:
    """Poll. Raises the consumer's error."""
    message = consumer.poll(60)
    if message is not None and message.error() is not None:
        raise KafkaException(message.error())
