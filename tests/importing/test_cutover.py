"""Tests Apache Kafka 4.4 as a source: under load and faults, and while consumers with three clients switch to the copy.

`python -m tests.importing.moving_in` runs the first of these at full size.
"""

from __future__ import annotations

import itertools
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.faults.foreign import Follower
from tests.forked import LACUNA, ForkedCluster, start_process
from tests.importing.moving_in import Plan, run
from tests.importing.sources import SECONDS, apache_kafka, created

PARTITIONS: Final = 4
TOPIC: Final = "orders"
#: The franz-go version in the matrix has no KIP-848 groups.
GROUPS: Final = [
    (kind, protocol)
    for kind in ("librdkafka", "java", "franz-go")
    for protocol in ("classic", "consumer")
    if (kind, protocol) != ("franz-go", "consumer")
]


class Writer:
    """Writes numbered records in transactions, every fifth of which is aborted, until it is stopped."""

    def __init__(self, bootstrap: str, first: int = 0) -> None:
        self.committed: list[bytes] = []
        self._bootstrap = bootstrap
        self._numbers = itertools.count(first)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "writer", "linger.ms": 0}
        )
        producer.init_transactions(SECONDS)
        while not self._is_over.wait(0.05):
            number = next(self._numbers)
            values = [b"%d-%d" % (number, index) for index in range(PARTITIONS)]
            producer.begin_transaction()
            for index, value in enumerate(values):
                producer.produce(TOPIC, value, partition=index)
            if number % 5:
                producer.commit_transaction(SECONDS)
                self.committed += values
            else:
                producer.abort_transaction(SECONDS)


def followers(bootstrap: str) -> list[Follower]:
    """Return followers that have not been started. Their programs are built."""
    return [
        Follower(kind, bootstrap, TOPIC, PARTITIONS, f"{kind}-{protocol}", protocol)
        for kind, protocol in GROUPS
    ]


def values(follower: Follower) -> Iterator[bytes]:
    return (value for rows in follower.rows.values() for _, value in rows)


def await_all(follower: Follower, count: int) -> None:
    assert follower.progress.wait_for(count, SECONDS), f"{follower.name}: {follower.errors}"


def importing(source: str, target: str, *arguments: str) -> list[str]:
    return [*LACUNA, "import", *arguments, "--from", source, "-b", target]


@pytest.mark.slow
@pytest.mark.java
def test_each_record_is_read_once_over_both_clusters(tmp_path: Path) -> None:
    with (
        apache_kafka(tmp_path / "kafka", "4.4") as there,
        ForkedCluster(tmp_path / "here") as here,
    ):
        source, target = there.bootstrap, here.bootstrap
        created(source, TOPIC, PARTITIONS)
        importer = start_process(importing(source, target, "run"))
        try:
            writer = Writer(source)
            before, after = followers(source), followers(target)
            for each in before:
                each.start()
            for each in before:
                each.await_more(40)
            writer.stop()
            for each in before:
                await_all(each, len(writer.committed))
            times = [time.monotonic()]
            with ThreadPoolExecutor(len(before)) as pool:
                list(pool.map(Follower.stop, before))
            times.append(time.monotonic())
            promotion = importing(source, target, "promote", "--all", "--wait", "30s")
            assert start_process(promotion).wait(SECONDS) == 0
            times.append(time.monotonic())
            second = Writer(target, first=1_000_000)
            for each in after:
                each.start()
            for each in after:
                each.await_more(40)
            second.stop()
            for each in after:
                await_all(each, len(second.committed))
                each.stop()
        finally:
            importer.kill()
            importer.wait()
        wanted = sorted([*writer.committed, *second.committed])
        for old, new in zip(before, after, strict=True):
            assert (old.fatal, new.fatal) == ([], [])
            assert sorted([*values(old), *values(new)]) == wanted, old.name
            print_pause(old, new, times)


def print_pause(old: Follower, new: Follower, times: Sequence[float]) -> None:
    """Print how long a consumer had no record, and the parts of that time.

    `times` contains the times at which the consumers were told to stop and had stopped, and the topics were promoted.
    """
    last = max(max(each) for each in old.times.values())
    first = min(min(each[1:]) for each in new.times.values() if each[1:])
    parts = [last, *times, new.assigned[0], first]
    names = ("others read", "stopped", "promoted", "got partitions", "got a record")
    shown = ", ".join(
        f"{name} {after - before:.2f}"
        for name, (before, after) in zip(names, pairwise(parts), strict=True)
    )
    sys.stdout.write(f"{old.name}: a pause of {first - last:.2f} s: {shown}\n")


@pytest.mark.slow
@pytest.mark.java
def test_apache_kafka_is_copied_exactly_whatever_is_killed(tmp_path: Path) -> None:
    plan = Plan(seconds=5, pause=0.1, kills=2, restarts=1, takeovers=1)
    found, load, said = run(tmp_path, "4.4", plan)
    assert (found.differences, load.failures) == ([], [])
    assert (found.partitions, bool(found.records), bool(found.offsets)) == (38, True, True)
    assert load.committed
    assert load.aborted
    assert not re.findall(r"^\S+ cannot .*", said, re.MULTILINE), (
        "a topic or a partition was stopped"
    )
