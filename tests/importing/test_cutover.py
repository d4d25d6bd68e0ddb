"""Consumers that run change over to the copy: librdkafka, kafka-clients and franz-go, in groups of both protocols."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.faults.foreign import Follower
from tests.forked import LACUNA, ForkedCluster, start_process
from tests.importing.sources import SECONDS, apache_kafka, created

PARTITIONS: Final = 4
TOPIC: Final = "orders"
#: franz-go has no KIP-848 groups in the version of the matrix.
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


def followed(bootstrap: str) -> list[Follower]:
    followers = [
        Follower(kind, bootstrap, TOPIC, PARTITIONS, f"{kind}-{protocol}", protocol)
        for kind, protocol in GROUPS
    ]
    for each in followers:
        each.start()
    return followers


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
            before = followed(source)
            for each in before:
                each.await_more(40)
            writer.stop()
            for each in before:
                await_all(each, len(writer.committed))
            began = time.monotonic()
            for each in before:
                each.stop()
            promotion = importing(source, target, "promote", "--all", "--wait", "30s")
            subprocess.run(promotion, check=True, timeout=SECONDS)
            promoted = time.monotonic()
            second = Writer(target, first=1_000_000)
            after = followed(target)
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
        sys.stdout.write(
            f"promoted in {promoted - began:.2f} s after the consumers were told to stop\n"
        )
        for old, new in zip(before, after, strict=True):
            assert (old.fatal, new.fatal) == ([], [])
            assert sorted([*values(old), *values(new)]) == wanted, old.name
            last = max(max(times) for times in old.times.values())
            first = min(min(times[1:]) for times in new.times.values() if times[1:])
            sys.stdout.write(f"{old.name}: a pause of {first - last:.2f} s\n")
