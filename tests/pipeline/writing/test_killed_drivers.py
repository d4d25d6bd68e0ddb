"""Drivers that are killed at any moment: each micro-batch is in the topic once, and whole at any time."""

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
KILLS = 8
START_SECONDS = 180.0


class Observer:
    """A read_committed consumer that looks, again and again, whether all it sees are whole micro-batches."""

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
        """All that was seen, in order of size."""
        return sorted(self._seen.elements())

    def await_batches(self, batches: int) -> None:
        """Until so many micro-batches were seen."""
        with self.has_more:
            assert self.has_more.wait_for(lambda: self.batches >= batches, START_SECONDS)

    def _watch(self) -> None:
        while not self._is_stopped.is_set():
            self._look()

    def _look(self) -> None:
        """Whatever is seen of a micro-batch, all of it lies below the ends that are asked for after that."""
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


@contextmanager
def driver(
    cluster: Cluster, topic: str, checkpoint: Path, *more: str
) -> Iterator["subprocess.Popen[str]"]:
    """The driver, with its JVM and tasks in a process group of its own, which is killed at the end."""
    command = [sys.executable, str(DRIVER), str(cluster.data), topic, str(checkpoint), str(ROWS)]
    with subprocess.Popen(
        [*command, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        cwd=DRIVER.parents[3],
        env={**os.environ, "PYTHONPATH": str(DRIVER.parents[3])},
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def await_done(process: "subprocess.Popen[str]") -> None:
    """Until a micro-batch is done."""
    assert process.stdout is not None
    assert process.stdout.readline().startswith("done"), "the driver has failed"


def test_each_micro_batch_is_there_once(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("killed", PARTITIONS)
    chance = random.Random(KILLS)
    with Observer(cluster, topic) as observer:
        for kill in range(KILLS):
            with driver(cluster, topic, tmp_path / "checkpoint") as process:
                if kill % 2:
                    observer.await_batches(observer.batches + 1)  # as soon as it is visible
                else:
                    await_done(process)
                    time.sleep(chance.random())  # whatever it does then
        with driver(cluster, topic, tmp_path / "checkpoint") as process:
            await_done(process)
            observer.await_batches(observer.batches + 2)
    assert not observer.failures
    assert observer.looks > 3 * KILLS
    assert observer.numbers == list(range(observer.batches * ROWS))


def test_a_task_that_fails_and_comes_again_repeats_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic("failing-tasks", PARTITIONS)
    checkpoint = tmp_path / "checkpoint"
    with Observer(cluster, topic) as observer, driver(cluster, topic, checkpoint, "fails"):
        observer.await_batches(3)
    assert not observer.failures
    assert observer.numbers == list(range(observer.batches * ROWS))
