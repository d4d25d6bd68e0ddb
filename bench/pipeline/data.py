"""Fills topics with the usual producer settings, and measures the size of the producer's batches."""

import json
import time

from confluent_kafka import Producer

from bench import BenchError
from bench.clients import PRODUCER, produce_all
from bench.lacuna import Lacuna
from bench.target import PARTITIONS, Target
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.location import find_cluster

_STATISTICS_MS = 250
#: An agent merges extents that have been stable for a minute, and looks for them every five seconds.
_MERGES_AFTER_SECONDS = 65.0
_CALM_SECONDS = 15.0
_LOOK_SECONDS = 1.0
_SETTLES_WITHIN = 300.0


class _Batches:
    """Counts batches in librdkafka's statistics, using each window of them once."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.records = 0.0
        self.batches = 0.0

    def __call__(self, text: str) -> None:
        window = json.loads(text)["topics"].get(self._topic, {}).get("batchcnt", {})
        self.records += window.get("sum", 0)
        self.batches += window.get("cnt", 0)


def fill(target: Target, topic: str, count: int, codec: str) -> float:
    """Writes `count` records, and returns the average number of records per batch. Raises BenchError."""
    batches = _Batches(topic)
    settings = {"compression.type": codec, "statistics.interval.ms": _STATISTICS_MS}
    client = Producer(
        {"bootstrap.servers": target.bootstrap, **PRODUCER, **settings, "stats_cb": batches}
    )
    produce_all(client, topic, count)
    client.poll(2 * _STATISTICS_MS / 1000)
    return batches.records / max(batches.batches, 1)


def settle(target: Lacuna, topic: str) -> None:
    """Waits until the topic's small extents have been merged and nothing changes any more. Raises BenchError."""
    began = changed = time.monotonic()
    extents: list[int] = []
    with JobClient(find_cluster(data=str(target.data)).require_control()) as control:
        keys = [(control.topics()[topic].topic_id, number) for number in range(PARTITIONS)]
        while time.monotonic() < max(began + _MERGES_AFTER_SECONDS, changed + _CALM_SECONDS):
            if time.monotonic() > began + _SETTLES_WITHIN:
                raise BenchError(f"{topic} is still being merged after {_SETTLES_WITHIN:.0f} s")
            now = [len(log.extents) for log in control.partition_logs(keys)]
            if now != extents:
                extents, changed = now, time.monotonic()
            time.sleep(_LOOK_SECONDS)
