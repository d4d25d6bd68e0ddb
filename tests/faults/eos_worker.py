"""Runs the exactly-once loop as a separate process: consumes, produces, and commits both in one transaction.

    python -m tests.faults.eos_worker BOOTSTRAP GROUP SOURCE SINK TRANSACTIONAL_ID [INSTANCE_ID]

It writes a line `committed COUNT` for every transaction, and `trouble …` for each error that it has recovered from.
SIGTERM ends it, and SIGUSR1 makes it print its threads' stacks.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.faults.history import effect

RECORDS_A_TRANSACTION = 20
SECONDS = 10.0
STAY: dict[str, Any] = {"metadata.recovery.strategy": "none"}
"""librdkafka 2.11 to 2.16 forgets its transaction coordinator when all brokers were away at once and it begins
anew from its bootstrap list (KIP-899); send_offsets_to_transaction then never returns."""


class Rebuild(Exception):
    """The producer or consumer is unusable and must be replaced."""


@dataclass(frozen=True, slots=True)
class Job:
    """The command-line arguments."""

    bootstrap: str
    group: str
    source: str
    sink: str
    transactional_id: str
    instance_id: str | None = None


def say(line: str) -> None:
    """Write a line to standard output immediately, for the process that started this one."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Worker:
    """One consumer and one transactional producer."""

    def __init__(self, job: Job, is_stopped: threading.Event) -> None:
        self.job = job
        self._is_stopped = is_stopped
        self.producer = Producer(
            {
                "bootstrap.servers": job.bootstrap,
                "transactional.id": job.transactional_id,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 0,
                **STAY,
            }
        )
        settings: dict[str, Any] = {
            "bootstrap.servers": job.bootstrap,
            "group.id": job.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            **STAY,
        }
        if job.instance_id is not None:
            settings["group.instance.id"] = job.instance_id
        self.consumer = Consumer(settings)

    def start(self) -> None:
        """Fence the previous producer, and join the group.

        The callbacks make sure that a rebalance only happens in `consume`, and thus never within a transaction.
        """
        self._insist(lambda: self.producer.init_transactions(SECONDS))

        def served(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            say(f"assigned {sorted(each.partition for each in partitions)}")

        self.consumer.subscribe([self.job.source], on_assign=served, on_revoke=served)

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()

    def step(self) -> None:
        """Run one transaction if there are records to process. Raises Rebuild."""
        messages = list(self.consumer.consume(RECORDS_A_TRANSACTION, 0.1))
        rows = [each for each in messages if each.error() is None]
        if not rows:
            return
        metadata = self.consumer.consumer_group_metadata()
        try:
            self.producer.begin_transaction()
            positions = dict(map(self._produce, rows))
            offsets = [TopicPartition(self.job.source, p, at) for p, at in positions.items()]
            self._insist(
                lambda: self.producer.send_offsets_to_transaction(offsets, metadata, SECONDS)
            )
            self._insist(lambda: self.producer.commit_transaction(SECONDS))
        except KafkaException as error:
            self._recover(error.args[0])
            return
        say(f"committed {len(rows)}")

    def _produce(self, row: Message) -> tuple[int, int]:
        """Produce the output for a record. Return the record's partition and the offset after it."""
        partition, offset, value = row.partition(), row.offset(), row.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        effect_value = effect(partition, offset, value)
        self.producer.produce(self.job.sink, effect_value, partition=partition)
        return partition, offset + 1

    def _insist(self, call: Callable[[], object]) -> None:
        """Repeat a call as long as its error is retriable and the worker has not been stopped."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self._is_stopped.is_set():
                    raise
                say(f"again {error.args[0].name()}: {error.args[0].str()}")

    def _recover(self, error: KafkaError) -> None:
        say(f"trouble {error.name()} fatal={error.fatal()}: {error.str()}")
        if error.fatal() or not error.txn_requires_abort():
            raise Rebuild(error.str())
        try:
            self._insist(lambda: self.producer.abort_transaction(SECONDS))
            self._rewind()
        except KafkaException as again:
            raise Rebuild(again.args[0].str()) from again

    def _rewind(self) -> None:
        """Seek back to the group's committed offsets."""
        for found in self.consumer.committed(self.consumer.assignment(), SECONDS):
            if found.offset < 0:
                found.offset = OFFSET_BEGINNING
            self.consumer.seek(found)


def main(arguments: list[str]) -> int:
    """Run until SIGTERM."""
    is_stopped = threading.Event()
    faulthandler.register(signal.SIGUSR1, file=sys.stdout)
    signal.signal(signal.SIGTERM, lambda *_: is_stopped.set())
    job = Job(*arguments)
    while not is_stopped.is_set():
        worker = Worker(job, is_stopped)
        try:
            worker.start()
            while not is_stopped.is_set():
                worker.step()
        except (Rebuild, KafkaException) as error:
            say(f"rebuild {error}")
        finally:
            worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
