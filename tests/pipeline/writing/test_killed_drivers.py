"""Tests drivers that are killed at any moment: each micro-batch is in the topic once, and always complete."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from lacuna.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DRIVER = Path(__file__).with_name("driver.py")
ROWS = 200
PARTITIONS = 3
KILLS = 2
# Below pytest's own limit, so that a test that hangs says why.
MOST_SECONDS = 800.0


class Observer:
    """A read_committed consumer that repeatedly checks that it sees only whole micro-batches."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"observer-{topic}",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        self._seen: Counter[int] = Counter()
        self._is_stopped = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.looks = 0
        self.batches = 0
        self.failures: list[str] = []
        self.has_more = threading.Condition()

    def __enter__(self) -> "Observer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped.set()
        self._thread.join()
        self._consumer.close()

    @property
    def numbers(self) -> list[int]:
        """Return all values seen, in ascending order."""
        return sorted(self._seen.elements())

    def await_batches(self, batches: int, driver: "Driver") -> None:
        """Wait until this many micro-batches have been seen. Raises the error of this consumer or the driver."""
        with self.has_more:
            self.has_more.wait_for(
                lambda: self.batches >= batches or self._error or driver.has_ended, MOST_SECONDS
            )
        if self._error is not None:
            raise self._error
        assert self.batches >= batches, driver.told

    def _watch(self) -> None:
        try:
            while not self._is_stopped.is_set():
                self._look()
        except Exception as error:
            self._error = error
            with self.has_more:
                self.has_more.notify_all()

    def _look(self) -> None:
        """Check that once any part of a micro-batch is visible, all of it is below the ends requested afterwards."""
        self._take(self._consumer.consume(1000, 0.02))
        seen = {number // ROWS for number in self._seen}
        ends = {
            n: self._consumer.get_watermark_offsets(TopicPartition(self._topic, n), 60)[1]
            for n in range(PARTITIONS)
        }
        while (
            any(
                position.offset < ends[position.partition]
                for position in self._consumer.position(
                    [TopicPartition(self._topic, n) for n in range(PARTITIONS)]
                )
            )
            and not self._is_stopped.is_set()
        ):
            self._take(self._consumer.consume(1000, 0.02))
        counts = Counter(number // ROWS for number in self._seen.elements())
        self.failures += [
            f"micro-batch {batch} has {counts[batch]} of {ROWS} records"
            for batch in seen
            if counts[batch] != ROWS
        ]
        self.looks += 1
        with self.has_more:
            self.batches = len(seen)
            self.has_more.notify_all()

    def _take(self, messages: list[Message]) -> None:
        self._seen.update(int(message.value() or b"") for message in messages)


class Driver:
    """A running driver, with its JVM and tasks in its own process group."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def has_ended(self) -> bool:
        """Return whether it ended by itself, which it never should."""
        return self._process.poll() is not None

    @property
    def told(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def await_done(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("done"), self.told


@contextmanager
def running(cluster: Cluster, topic: str, checkpoint: Path, *more: str) -> Iterator[Driver]:
    """Run a driver for the block, and kill it at the end."""
    command = [sys.executable, str(DRIVER), str(cluster.data), topic, str(checkpoint), str(ROWS)]
    log = checkpoint.with_suffix(".log")
    with (
        log.open("a") as stderr,
        subprocess.Popen(
            [*command, *more],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            cwd=DRIVER.parents[3],
            env={**os.environ, "PYTHONPATH": str(DRIVER.parents[3])},
        ) as process,
    ):
        try:
            yield Driver(process, log)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_each_micro_batch_is_there_once(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("killed", PARTITIONS)
    chance = random.Random(KILLS)
    with Observer(cluster, topic) as observer:
        for kill in range(KILLS):
            with running(cluster, topic, tmp_path / "checkpoint") as driver:
                if kill % 2:
                    observer.await_batches(observer.batches + 1, driver)  # as soon as it is visible
                else:
                    driver.await_done()
                    time.sleep(chance.random())  # whatever it does then
        with running(cluster, topic, tmp_path / "checkpoint") as driver:
            driver.await_done()
            observer.await_batches(observer.batches + 2, driver)
    assert not observer.failures
    assert observer.looks > 3 * KILLS
    assert observer.numbers == list(range(observer.batches * ROWS))


def test_a_task_that_fails_and_comes_again_repeats_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic("failing-tasks", PARTITIONS)
    checkpoint = tmp_path / "checkpoint"
    with (
        Observer(cluster, topic) as observer,
        running(cluster, topic, checkpoint, "fails") as driver,
    ):
        observer.await_batches(3, driver)
    assert not observer.failures
    assert observer.numbers == list(range(observer.batches * ROWS))
