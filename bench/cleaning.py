"""Measures compaction by key in agents: `python -m bench.cleaning [--records N] [--keys N] [--memory MIB]`.

First, an agent cleans a compacted topic with random keys, which is then read from the start. Second, records are
written for several seconds in the way that Kafka Streams writes a changelog, while the agent merges and cleans at its
usual pace.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import time
from typing import Any

from confluent_kafka import Producer

from lacuna.agent.housekeeping import CleanSettings, HousekeepingSettings, MergeSettings
from lacuna.agent.housekeeping.cleaning import Cleaner, CleanReport
from lacuna.controlplane.state.partition import Partition
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import NEVER, housekeeping, read

CONFIGS = {"cleanup.policy": "compact"}
VALUE_BYTES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--memory", type=int, default=256, help="memory for the keys, in MiB")
    parser.add_argument(
        "--seconds", type=int, default=300, help="how long to write a changelog, in seconds"
    )
    given = parser.parse_args()
    _bulk(given.records, given.keys, given.memory)
    if given.seconds:
        _changelog(given.seconds, given.memory)


def _bulk(records: int, keys: int, memory: int) -> None:
    """Cleans a topic in one go, and compares it with a topic that has one record per key."""
    with Cluster(parts=_parts(memory, NEVER, min_age_ms=0)) as cluster:
        topic = cluster.create_topic("bulk", configs=CONFIGS)
        single = cluster.create_topic("single")
        draw = random.Random(1)
        newest: dict[bytes, bytes] = {}

        def rows() -> Any:
            for number in range(records):
                key = b"key-%012d" % draw.randrange(keys)
                newest[key] = b"%0*d" % (VALUE_BYTES, number)
                yield key, newest[key]

        _produce(cluster, topic, rows())
        _produce(cluster, single, newest.items())
        before = _partition(cluster, topic).size_bytes
        cleaner = housekeeping(cluster).cleaner
        cpu, wall = time.process_time(), time.monotonic()
        peak = _peak_mebibytes()
        passes = []
        while report := _pass(cluster, cleaner):
            passes.append(report)
            _say(f"pass: {report}")
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        after, one_each = (_partition(cluster, each).size_bytes for each in (topic, single))
        _say(
            f"cleaned {records:,} records of {keys:,} keys in {len(passes)} passes: {cpu:.1f} s of CPU time, "
            f"{wall:.1f} s elapsed; the process grew from {peak} to {_peak_mebibytes()} MiB"
        )
        _say(
            f"{before:,} bytes were reduced to {after:,}, which is {after / one_each:.3f} times the size of one record "
            "per key"
        )
        found = {key: value for _, key, value, _ in read(cluster, topic, "read_committed")}
        rows_read = len(read(cluster, topic, "read_committed"))
        _say(
            f"a consumer read {rows_read:,} records; the newest value of every key is correct: {found == newest}"
        )


def _pass(cluster: Cluster, cleaner: Cleaner) -> CleanReport | None:
    """Runs one pass, which may take longer than `Cluster.run` allows."""

    async def begin() -> asyncio.Task[CleanReport | None]:
        return asyncio.create_task(cleaner.run_once())

    task = cluster.run(begin())
    while not task.done():
        time.sleep(0.05)
    return task.result()


def _changelog(seconds: int, memory: int) -> None:
    """Writes about 250 updates per second to 200 keys, with a flush every 100 ms."""
    with Cluster(parts=_parts(memory, 15_000, min_age_ms=60_000)) as cluster:
        topic = cluster.create_topic("changelog", configs=CONFIGS)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
        end = time.monotonic() + seconds
        shown = time.monotonic()
        count = most = 0
        while time.monotonic() < end:
            for _ in range(25):
                producer.produce(topic, b"%0100d" % count, b"key-%d" % (count % 200))
                count += 1
            producer.flush(60)
            time.sleep(0.1)
            most = max(most, _partition(cluster, topic).size_bytes)
            if time.monotonic() > shown + 30:
                shown = time.monotonic()
                _say(
                    f"{count:,} records written, {_partition(cluster, topic).size_bytes:,} bytes stored"
                )
        size = _partition(cluster, topic).size_bytes
        _say(
            f"changelog: {count:,} records of 200 keys in {seconds} s, {size:,} bytes stored (peak: {most:,})"
        )


def _parts(memory: int, interval_ms: int, *, min_age_ms: int) -> AgentParts:
    return AgentParts(
        housekeeping=HousekeepingSettings(
            merge_interval_ms=min(interval_ms, 5_000) if interval_ms < NEVER else NEVER,
            clean_interval_ms=interval_ms,
            merge=MergeSettings(min_age_ms=min_age_ms),
            clean=CleanSettings(memory_bytes=memory << 20),
        )
    )


def _produce(cluster: Cluster, topic: str, rows: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50})
    for key, value in rows:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(600) == 0


def _partition(cluster: Cluster, topic: str) -> Partition:
    state = cluster.embedded.running.runtime.state
    return state.partitions[state.topics_by_name[topic].topic_id, 0]


def _peak_mebibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
