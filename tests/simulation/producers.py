"""Producers of the simulation: plain, idempotent, and transactional ones with either protocol generation.

They retry as librdkafka and the Java client do: they resend an unanswered or retriable batch with its sequence, after
the earlier ones, and they repeat an unanswered EndTxn until its outcome is known.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from tests.clients.batch import TRANSACTIONAL, Rec, batch
from tests.messages import REQUESTS, make, nested
from tests.simulation.history import History, Place, Transaction
from tests.simulation.kafka import RETRIABLE, Client, KafkaError, Unanswered

#: Batches of one partition that wait for their answers at once.
IN_FLIGHT: Final = 3
#: Another producer has taken over, or the coordinator has ended the transaction.
FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)


class Fatal(Exception):
    """The producer cannot continue with its id and epoch."""


@dataclass(slots=True)
class Identity:
    """The identity of an idempotent producer. -1 means none."""

    producer_id: int = -1
    epoch: int = -1
    sequences: dict[Place, int] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """A batch in flight."""

    values: Sequence[bytes]
    data: bytes
    first_sequence: int


class Producer:
    """Sends batches to partitions, in order. The base of all kinds of producers."""

    def __init__(
        self, name: str, client: Client, history: History, randomness: random.Random
    ) -> None:
        self.name = name
        self.client = client
        self.history = history
        self.random = randomness
        self.identity = Identity()
        self.transactional_id: str | None = None
        self.transaction: Transaction | None = None
        self.version = 9
        self.acks = -1
        #: The offset after the last record that was acknowledged, by place.
        self.ends: dict[Place, int] = {}
        self._number = 0

    def value(self) -> bytes:
        """Return a unique value. The values of one producer are numbered."""
        self._number += 1
        return b"%s:%d" % (self.name.encode(), self._number)

    def record(self, _place: Place, value: bytes) -> Rec | bytes:
        """Return the record for a value."""
        return value

    async def init(self, timeout_ms: int = 10_000) -> None:
        """Get a producer id and epoch, however long this takes. Raises Fatal."""
        request = make(
            REQUESTS[22].body,
            4,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        while True:
            try:
                if self.transactional_id is None:
                    answer = await self.client.ask_any(22, 4, request)
                else:
                    answer = await self.client.coordinated(1, self.transactional_id, 22, 4, request)
            except Unanswered:
                await self.client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                self.identity = Identity(answer.producer_id, answer.producer_epoch)
                self.client.served()
                return
            await self.recover(code)

    async def recover(self, code: ErrorCode) -> None:
        """Wait before the next attempt to reach the coordinator. Raises Fatal if no attempt is left."""
        if code not in RETRIABLE:
            raise Fatal(code.name)
        if code != ErrorCode.CONCURRENT_TRANSACTIONS and self.transactional_id is not None:
            self.client.forget_coordinator(1, self.transactional_id)
        await self.client.pause()

    def _next_batch(self, place: Place, values: Sequence[bytes]) -> Batch:
        for value in values:
            self.history.sent(value, self.transaction, place)
        if self.transaction is not None:
            self.transaction.values.setdefault(place, []).extend(values)
        identity = self.identity
        first = -1
        if identity.producer_id >= 0:
            first = identity.sequences.get(place, 0)
            identity.sequences[place] = first + len(values)
        data = batch(
            [self.record(place, value) for value in values],
            attributes=TRANSACTIONAL if self.transaction is not None else 0,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=first,
        )
        return Batch(values, data, first)

    async def produce(self, place: Place, batches: int) -> None:
        """Send some batches to a partition and return once all are acknowledged. Raises Fatal, KafkaError."""
        count = self.random.choice((1, 1, 2, 3))
        await self.deliver(place, [[self.value() for _ in range(count)] for _ in range(batches)])

    async def deliver(self, place: Place, batches: Sequence[Sequence[bytes]]) -> None:
        """Send batches of these values, as `produce` does."""
        waiting = [self._next_batch(place, values) for values in batches]
        while waiting:
            window = waiting[:IN_FLIGHT]
            done = await self._send(place, window)
            del waiting[:done]
            if done < len(window):
                await self.client.pause()

    async def _send(self, place: Place, window: Sequence[Batch]) -> int:
        """Send batches in order on one connection. Return how many of them, from the first on, are acknowledged."""
        topic, partition = place
        try:
            address = await self.client.leader(topic, partition)
            connection = await self.client.connection(address)
        except Unanswered:
            self.client.forget_leader(topic)
            return 0
        is_fenced = (self.identity.producer_id, self.identity.epoch) in self.history.fenced
        futures = [connection.send(0, self.version, self._request(place, each)) for each in window]
        for future in futures:
            future.add_done_callback(_looked_at)
        done = 0
        for each, future in zip(window, futures, strict=True):
            try:
                answer = await _answer(future, self.client.request_timeout)
            except (Unanswered, TimeoutError):
                connection.close()
                self.client.forget_leader(topic)
                break
            result = answer.responses[0].partition_responses[0]
            code = ErrorCode(result.error_code)
            if code == ErrorCode.NONE and is_fenced:
                self.history.wrong(f"{self.name} was fenced by an admin and produced to {place}")
            if not self._took(place, each, code, result.base_offset, is_first=done == 0):
                break
            done += 1
        return done

    def _took(
        self, place: Place, sent: Batch, code: ErrorCode, offset: int, *, is_first: bool
    ) -> bool:
        if code == ErrorCode.NONE:
            self.client.served()
            self.ends[place] = offset + len(sent.values)
            for index, value in enumerate(sent.values):
                self.history.acknowledge(
                    place, offset + index, value, is_in_transaction=self.transaction is not None
                )
            return True
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return True
        if code in RETRIABLE or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first):
            self.client.forget_leader(place[0])
            return False
        if code in FENCED:
            raise Fatal(code.name)
        raise KafkaError(code, "produce")

    def _request(self, place: Place, sent: Batch) -> object:
        topic = place[0]
        named = {"topic_id": self.client.topic_id(topic)} if self.version > 12 else {"name": topic}
        data = nested(
            0,
            self.version,
            "TopicProduceData",
            **named,
            partition_data=(
                nested(
                    0,
                    self.version,
                    "PartitionProduceData",
                    index_=place[1],
                    records=memoryview(sent.data),
                ),
            ),
        )
        return make(
            REQUESTS[0].body,
            self.version,
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=5_000,
            topic_data=(data,),
        )


async def _answer(future: asyncio.Future[Any], seconds: float) -> Any:
    """Wait for an answer without changing the future. Raises TimeoutError, and the future's error."""
    await asyncio.wait([future], timeout=seconds)
    if not future.done():
        raise TimeoutError
    return future.result()


def _looked_at(future: asyncio.Future[object]) -> None:
    if not future.cancelled():
        future.exception()


class PlainProducer(Producer):
    """Sends without an id, and sends each batch only once: an unanswered batch counts as lost.

    Batches on one connection keep their order, though some may be missing.
    """

    async def run(self, places: Sequence[Place]) -> None:
        """Produce forever."""
        while True:
            place = self.random.choice(places)
            count = self.random.choice((1, 2, 4))
            try:
                await self._stream(place, count)
            except (Fatal, KafkaError) as error:
                self.history.wrong(f"{self.name} could not produce: {error}")
            await asyncio.sleep(0.3 * self.random.random())

    async def _stream(self, place: Place, count: int) -> None:
        """Send some batches one after another on one connection, before any is answered."""
        try:
            connection = await self.client.connection(await self.client.leader(*place))
        except Unanswered:
            self.client.forget_leader(place[0])
            return
        sent = []
        for _ in range(count):
            values = [self.value() for _ in range(self.random.choice((1, 2, 5)))]
            one = self._next_batch(place, values)
            future = connection.send(0, self.version, self._request(place, one))
            future.add_done_callback(_looked_at)
            sent.append((one, future))
            await asyncio.sleep(0.03 * self.random.random())
        for at, (one, future) in enumerate(sent):
            try:
                answer = await _answer(future, self.client.request_timeout)
            except (Unanswered, TimeoutError):
                connection.close()
                self.client.forget_leader(place[0])
                for lost, _ in sent[at:]:
                    self.history.doubt(lost.values)
                return
            result = answer.responses[0].partition_responses[0]
            code = ErrorCode(result.error_code)
            if not self._took(place, one, code, result.base_offset, is_first=True):
                self.history.doubt(one.values)


class IdempotentProducer(Producer):
    """Retries until everything is acknowledged, so that nothing is lost, duplicated or out of order."""

    async def run(self, places: Sequence[Place]) -> None:
        """Produce forever."""
        await self.init()
        self.history.counts["producer ids"] += 1
        while True:
            try:
                await self.produce(self.random.choice(places), self.random.randint(1, 5))
            except (Fatal, KafkaError) as error:
                self.history.wrong(f"{self.name} could not go on: {error}")
                await self.init()
            await asyncio.sleep(0.5 * self.random.random())


class TransactionalProducer(Producer):
    """Runs consecutive transactions with either protocol (`is_second`: KIP-890's)."""

    def __init__(
        self,
        name: str,
        transactional_id: str,
        client: Client,
        history: History,
        randomness: random.Random,
        *,
        is_second: bool,
    ) -> None:
        super().__init__(name, client, history, randomness)
        self.transactional_id = transactional_id
        self.is_second = is_second
        self.version = randomness.choice((12, 13)) if is_second else 11
        self._transactions = 0
        #: Whether another producer uses the same transactional id.
        self.may_be_fenced = False

    async def run(self, places: Sequence[Place]) -> None:
        """Run transactions forever. Starts over when it is fenced."""
        while True:
            try:
                await self.init(self.random.choice((3_000, 10_000, 60_000)))
                while True:
                    await self.transact(places)
                    await asyncio.sleep(0.5 * self.random.random())
            except (Fatal, KafkaError) as error:
                self.history.counts[f"fenced or ended: {error}"] += 1
                if not self.may_be_fenced:
                    self._judge(str(error))
                await asyncio.sleep(self.random.random())

    def _judge(self, code: str) -> None:
        """Report an error of a producer that is alone, unless a transaction timeout explains it."""
        if code not in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"):
            self.history.wrong(
                f"{self.name} is alone under its transactional id, and was refused: {code}"
            )

    async def transact(self, places: Sequence[Place]) -> None:
        """Run one transaction. Raises Fatal, KafkaError."""
        transaction = self.begin()
        chosen = self.random.sample(list(places), min(len(places), self.random.randint(1, 3)))
        if not self.is_second:
            await self.add_partitions(chosen)
        await self._fill(chosen)
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.05, 0.5)) * self.random.random())
        await self.end(transaction, commits=self.random.random() < 0.6)

    def begin(self) -> Transaction:
        """Begin a transaction. The cluster learns of it from the next request."""
        self._transactions += 1
        transaction = self.transaction = Transaction(f"{self.name}/{self._transactions}")
        self.history.began(transaction, self.identity.producer_id, self.identity.epoch)
        return transaction

    async def _fill(self, chosen: Sequence[Place]) -> None:
        batches = self.random.choice((1, 1, 2, 6))
        results = await asyncio.gather(
            *(self.produce(place, batches) for place in chosen), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def add_partitions(self, places: Sequence[Place]) -> None:
        """Add partitions to the transaction, which is needed only in the first protocol. Raises Fatal."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in places:
            by_topic.setdefault(topic, []).append(partition)
        topics = tuple(
            nested(24, 3, "AddPartitionsToTxnTopic", name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        )
        request = make(
            REQUESTS[24].body,
            3,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=topics,
        )
        while True:
            answer = await self.ask_coordinator(24, 3, request)
            codes = {
                ErrorCode(each.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            } - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
            if not codes:
                return
            await self.recover(min(codes))

    async def end(self, transaction: Transaction, *, commits: bool) -> None:
        """Commit or abort, and retry until the outcome is known. Raises Fatal, after which a commit is in doubt."""
        if commits:
            transaction.may_commit = True
        version = 5 if self.is_second else 3
        request = make(
            REQUESTS[26].body,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commits,
        )
        while True:
            answer = await self.ask_coordinator(26, version, request)
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                break
            await self.recover(code)
        if commits:
            self.history.committed(transaction)
        self.transaction = None
        if self.is_second and answer.producer_id >= 0:
            self.identity = Identity(answer.producer_id, answer.producer_epoch)

    async def ask_coordinator(self, key: int, version: int, request: object) -> Any:
        """Repeat a request to the transactional id's coordinator until it answers."""
        assert self.transactional_id is not None
        while True:
            try:
                return await self.client.coordinated(
                    1, self.transactional_id, key, version, request
                )
            except Unanswered:
                await self.client.pause()
