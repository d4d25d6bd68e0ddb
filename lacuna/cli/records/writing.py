"""Writes records to a topic, with or without transactions, and counts those that have arrived."""

import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from lacuna.base.errors import UserError
from lacuna.cli.answers import check
from lacuna.cli.queries import topic_configs, topic_metadata
from lacuna.cli.records.finding import check_partition
from lacuna.cli.records.input import Record
from lacuna.cli.records.librdkafka_errors import explain_error
from lacuna.cli.units import show_count
from lacuna.operating.kafka import Agents, KafkaConnection

_ANSWER_SECONDS: Final = 60.0
#: The maximum that the cluster allows, because a user may type the records of a transaction by hand.
_TRANSACTION_TIMEOUT_MS: Final = 900_000
#: The delay until Ctrl-C is noticed.
_WAIT_SECONDS: Final = 0.2
#: How long sent records may take to arrive after the command was stopped early.
_LAST_SECONDS: Final = 5.0
#: librdkafka's default.
_BATCH_BYTES: Final = 1_000_000

_CONFIG: Final = {
    "client.id": "lacuna-cli",
    "enable.idempotence": True,
    "message.timeout.ms": int(_ANSWER_SECONDS * 1000),
    "partitioner": "murmur2_random",  # the partitioner of Kafka's own clients
    "message.max.bytes": 1_000_000_000,  # the topic has its own limit, and the cluster reports when a record exceeds it
}
#: librdkafka prints its own lines to standard error; for a fenced producer, it does so at any log level.
_SILENT: Final = logging.getLogger("lacuna.cli.records.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_HINTS: Final = {
    KafkaError.INVALID_RECORD: "the topic is compacted, so each record needs a key: add --key-separator",
    KafkaError.MSG_SIZE_TOO_LARGE: "it is larger than the topic's max.message.bytes, which you can raise with "
    "`lacuna topics alter`",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic was deleted; `lacuna topics list` lists the topics",
    KafkaError._UNKNOWN_PARTITION: "the topic does not have this partition; `lacuna topics describe` lists its "
    "partitions",
    KafkaError._FENCED: "a newer producer uses this --transactional-id; choose another one",
    KafkaError._MSG_TIMED_OUT: f"no agent accepted it within {_ANSWER_SECONDS:.0f} s: check that the cluster "
    "is running",
    KafkaError._TIMED_OUT: f"no agent answered within {_ANSWER_SECONDS:.0f} s: check that the cluster is running",
}


@dataclass(slots=True)
class Written:
    records: int
    first: int
    last: int


async def find_limit(bootstrap: Agents, topic: str, partition: int | None) -> int:
    """Return the topic's max.message.bytes. A missing topic is created if the cluster creates topics automatically.

    Raises UserError if the topic or its partition does not exist.
    """
    async with KafkaConnection(bootstrap) as connection:
        (metadata,) = await topic_metadata(connection, topic, creates=True)
        check(metadata.error_code, f"topic {topic}")
        if partition is not None:
            check_partition(topic, partition, len(metadata.partitions))
        configs = await topic_configs(connection, topic)
    limits = [int(each.value or 0) for each in configs or () if each.name == "max.message.bytes"]
    return limits[0] if limits else _BATCH_BYTES


class Writer:
    """Writes records to a topic, as a context manager. An error in the block aborts the open transaction.

    `limit` is the topic's max.message.bytes, which also limits batches of small records. With a `transactional_id`,
    each transaction contains `most` records, or all of them if `most` is None, and is committed, or aborted if
    `aborts`. Every method raises UserError.
    """

    def __init__(
        self,
        bootstrap: Agents,
        topic: str,
        *,
        limit: int = _BATCH_BYTES,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        compression: str = "none",
        transactional_id: str | None = None,
        most: int | None = None,
        aborts: bool = False,
    ) -> None:
        self.written: dict[int, Written] = {}
        self.transactions = 0
        self._arguments: dict[str, Any] = {
            "topic": topic,
            "partition": -1 if partition is None else partition,
        }
        self._headers = list(headers)
        self._id = transactional_id
        self._most = most
        self._aborts = aborts
        self._given = 0
        self._in_transaction = 0
        self._failure: tuple[int, KafkaError] | None = None
        config: dict[str, Any] = {
            **_CONFIG,
            **bootstrap.librdkafka(),
            "compression.type": compression,
            "batch.size": max(1, min(limit, _BATCH_BYTES)),
        }
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
            config["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
        self._producer: Any = Producer(config, logger=_SILENT)

    def __enter__(self) -> Self:
        if self._id is not None:
            self._call(self._producer.init_transactions, _ANSWER_SECONDS)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._in_transaction:
            self.abandon()

    @property
    def records(self) -> int:
        return sum(each.records for each in self.written.values())

    def write(self, record: Record) -> None:
        """Sends a record without waiting for it to arrive. Raises UserError if any record has been rejected."""
        if self._failure is not None:
            self._fail()
        if self._id is not None and not self._in_transaction:
            self._call(self._producer.begin_transaction)
        self._given += 1
        self._in_transaction += self._id is not None
        arrived = partial(self._arrived, self._given)
        arguments = self._arguments | record.arguments(self._headers)
        while True:
            try:
                self._producer.produce(**arguments, on_delivery=arrived)
                break
            except BufferError:  # the queue is full
                self._producer.poll(_WAIT_SECONDS)
            except KafkaException as error:
                self._failure = (self._given, error.args[0])
                self._fail()
        self._producer.poll(0)
        if self._in_transaction == self._most:
            self.finish()

    def finish(self) -> None:
        """Waits for all records to arrive, and ends the open transaction."""
        while self._failure is None and self._producer.flush(_WAIT_SECONDS):
            continue
        if self._failure is not None:
            self._fail()
        if not self._in_transaction:
            return
        end = (
            self._producer.abort_transaction if self._aborts else self._producer.commit_transaction
        )
        with _undisturbed():
            self._call(end, _ANSWER_SECONDS)
            self._in_transaction = 0
            self.transactions += 1

    def abandon(self) -> int:
        """Stops writing immediately.

        Aborts the open transaction, and returns the number of its records. Without a transaction, waits a moment for
        records to arrive.
        """
        aborted, self._in_transaction = self._in_transaction, 0
        if aborted:
            self._call(self._producer.abort_transaction, _ANSWER_SECONDS)
        else:
            self._producer.purge(in_flight=False)
            self._producer.flush(_LAST_SECONDS)
        return aborted

    def _arrived(self, number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failure = self._failure or (number, error)
            return
        offset = message.offset()
        written = self.written.get(message.partition())
        if written is None:
            self.written[message.partition()] = Written(1, offset, offset)
            return
        written.records += 1
        written.first = min(written.first, offset)
        written.last = max(written.last, offset)

    def _fail(self) -> None:
        assert self._failure is not None
        number, error = self._failure
        aborted = self.abandon()
        arrived = f"{show_count(self.records, 'record')} arrived"
        after = "its transaction was aborted" if aborted else arrived
        raise UserError(f"line {number}: {_explained(error)} ({after})")

    def _call(self, function: Any, *arguments: Any) -> None:
        """Call a function that raises KafkaException, and retry once if the error may be temporary."""
        try:
            try:
                function(*arguments)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                function(*arguments)
        except KafkaException as error:
            problem = error.args[0]
            self._in_transaction = 0
            if problem.txn_requires_abort():
                with suppress(KafkaException):  # the cluster aborts the transaction at its timeout
                    self._producer.abort_transaction(_ANSWER_SECONDS)
            raise UserError(f"--transactional-id {self._id}: {_explained(problem)}") from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that every commit is counted."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard and callable(before):
        raise KeyboardInterrupt


def _explained(error: KafkaError) -> str:
    return _HINTS.get(error.code()) or explain_error(error)
