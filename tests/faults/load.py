"""Clients that record every acknowledgement and keep running while servers are being killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.clients.librd import COMMITTED, consumer, producer

from .history import Transaction

SECONDS = 60.0


class Progress:
    """Counts acknowledgements, and wakes threads that are waiting for a count."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def add(self, count: int = 1) -> None:
        with self._changed:
            self.count += count
            self._changed.notify_all()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Wait for at most `seconds` until `count` is reached. Return whether it was reached."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, seconds)


class Client(threading.Thread):
    """A thread that calls `step` until it is stopped. `failure` is the error, if any, that ended it before that.

    `errors` contains every error that its application received, including those overcome by a retry.
    """

    def __init__(self, bootstrap: str, topic: str, progress: Progress) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.progress = progress
        self.failure: BaseException | None = None
        self.errors: list[str] = []
        self._is_stopped = threading.Event()

    def run(self) -> None:
        try:
            while not self._is_stopped.is_set():
                self.step()
            self.end()
        except BaseException as error:
            self.failure = error

    def step(self) -> None:
        """Do one piece of work. Subclasses must define it."""
        raise NotImplementedError

    def end(self) -> None:
        """Do the last piece of work, if a subclass has any."""

    def stop(self) -> None:
        """End the thread. Raises its error if it failed."""
        self._is_stopped.set()
        self.join(2 * SECONDS)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive(), f"{type(self).__name__} does not end"

    def insist(self, call: Callable[[], object]) -> None:
        """Call the function `insist`, and record each error."""
        insist(call, self.note)

    def note(self, error: KafkaError) -> None:
        """Record an error that the application received."""
        self.errors.append(f"{type(self).__name__}: {error.name()}: {error.str()}")


class PlainClient(Client):
    """An idempotent producer. `acknowledged` contains the (offset, value) pairs for each partition.

    The keys of `config` are librdkafka's names, with _ instead of dots.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        progress: Progress,
        partitions: int,
        **config: object,
    ) -> None:
        super().__init__(bootstrap, topic, progress)
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
        self._number = 0
        self._producer = producer(
            bootstrap,
            None,
            enable_idempotence=True,
            linger_ms=1,
            message_timeout_ms=int(3 * SECONDS * 1000),  # more than an outage
            **config,
        )

    def step(self) -> None:
        for _ in range(8):
            partition = self._number % len(self.acknowledged)
            value = b"plain %d" % self._number
            self._number += 1
            self._producer.produce(
                self.topic, value, partition=partition, on_delivery=self._delivered
            )
        while len(self._producer) > 24:
            self._producer.poll(0.1)

    def end(self) -> None:
        assert self._producer.flush(SECONDS) == 0
        assert self.errors == []

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.note(error)
            return
        row = (message.offset() or 0, bytes(message.value() or b""))
        self.acknowledged[message.partition() or 0].append(row)
        self.progress.add()


class TransactionalClient(Client):
    """Writes transactions to all partitions and aborts some. `transactions` records the acknowledgements for each.

    It waits for `pause` seconds between transactions.
    """

    kind = "librdkafka"

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        progress: Progress,
        partitions: int,
        number: int,
        pause: float = 0.0,
        **config: object,
    ) -> None:
        super().__init__(bootstrap, topic, progress)
        self.transactions: list[Transaction] = []
        #: When each commit was asked for and answered, by the monotonic clock.
        self.commits: list[tuple[float, float]] = []
        #: Errors after which only a new producer goes on.
        self.fatal: list[str] = []
        self._name = f"txn-{number}"
        self._partitions = partitions
        self._pause = pause
        self._config = config
        self._rng = random.Random(number)
        self._producer: Producer | None = None

    def step(self) -> None:
        try:
            if self._producer is None:
                self._producer = self._new()
            self._transaction(self._producer)
            self._is_stopped.wait(self._pause)
        except KafkaException as error:
            self._recover(error.args[0])

    def end(self) -> None:
        """Fence its own producer, so that no transaction remains open."""
        self._producer = self._new()

    def _new(self) -> Producer:
        made = producer(
            self.bootstrap,
            None,
            **{"transactional.id": self._name},
            # More than an outage: librdkafka gives up messages after this time, too.
            transaction_timeout_ms=int(3 * SECONDS * 1000),
            metadata_recovery_strategy="none",  # as in eos_worker.py
            **self._config,
        )
        self.insist(lambda: made.init_transactions(SECONDS))
        return made

    def _transaction(self, who: Producer) -> None:
        one = Transaction()
        number = len(self.transactions)
        self.transactions.append(one)
        who.begin_transaction()
        for at in range(self._rng.randint(1, 12)):
            partition = self._rng.randrange(self._partitions)
            value = f"{self._name} {number} {at}".encode()
            one.values.setdefault(partition, []).append(value)
            who.produce(self.topic, value, partition=partition)
        if self._rng.random() < 0.25:
            self.insist(lambda: who.abort_transaction(SECONDS))
            one.is_committed = False
        else:
            asked = time.monotonic()
            self.insist(lambda: who.commit_transaction(SECONDS))
            self.commits.append((asked, time.monotonic()))
            one.is_committed = True
        self.progress.add()

    def _recover(self, error: KafkaError) -> None:
        self.note(error)
        who, self._producer = self._producer, None
        if who is None or error.fatal() or not error.txn_requires_abort():
            self.fatal.append(error.str())
            return
        try:
            self.insist(lambda: who.abort_transaction(SECONDS))
            self._producer = who
        except KafkaException as again:
            self.fatal.append(again.args[0].str())


class Tail(Client):
    """A read_committed group member that reads one partition and periodically commits its position."""

    def __init__(
        self, bootstrap: str, topic: str, progress: Progress, partition: int, **config: object
    ) -> None:
        super().__init__(bootstrap, topic, progress)
        self.rows: list[tuple[int, bytes]] = []
        self.committed = 0
        self.until = 0
        self._partition = partition
        self._who: Consumer = consumer(bootstrap, COMMITTED, **{"group.id": "tail", **config})
        self._who.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])

    def step(self) -> None:
        for message in self._who.consume(100, 0.1):
            error = message.error()
            if error is None:
                self.rows.append((message.offset() or 0, bytes(message.value() or b"")))
            elif error.code() != KafkaError._PARTITION_EOF:
                self.note(error)
        position = self.rows[-1][0] + 1 if self.rows else 0
        if position > self.committed:
            offset = TopicPartition(self.topic, self._partition, position)
            try:
                self._who.commit(offsets=[offset], asynchronous=False)
                self.committed = position
            except KafkaException as error:
                self.note(error.args[0])

    def finish(self, end: int) -> None:
        """Read up to the offset `end`, then stop."""
        self.until = end
        self.stop()

    def end(self) -> None:
        while not self.rows or self.rows[-1][0] + 1 < self.until:
            self.step()
        while self.committed < self.until:
            self.step()
        self._who.close()


def insist(call: Callable[[], object], seen: Callable[[KafkaError], None] = lambda _: None) -> None:
    """Repeat a call as long as its error is retriable, and pass each error to `seen`. Raises other KafkaExceptions."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            seen(error.args[0])
