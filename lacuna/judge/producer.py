"""Producers that do what clients do and hide nothing: each answer that gets lost leaves a trace in the outcome."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from lacuna.judge import client as kafka
from lacuna.judge.client import RETRIED, TRANSACTION, VAGUE, Client, Lost, Refused
from lacuna.wire.layout import Message
from lacuna.wire.messages import transactions as wire
from lacuna.wire.messages.offsets import (
    TXN_OFFSET_COMMIT_REQUEST,
    TXN_OFFSET_COMMIT_RESPONSE,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from lacuna.wire.messages.produce import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")

#: The highest versions of a client of each protocol generation (KIP-890): TV1 adds partitions, TV2 need not.
_PRODUCE: Final = {1: 11, 2: 12}
_END_TXN: Final = {1: 4, 2: 5}
_TXN_OFFSETS: Final = {1: 4, 2: 5}
_INIT: Final = 5
_ADD_PARTITIONS: Final = 3
_ADD_OFFSETS: Final = 4

_ALL_REPLICAS: Final = -1
_SERVER_TIMEOUT_MS: Final = 10_000
#: A transaction that nobody ends is aborted after this time.
TRANSACTION_TIMEOUT_MS: Final = 10_000
_PAUSE_SECONDS: Final = 0.02
_MOST_PAUSE_SECONDS: Final = 0.5
_DUPLICATE_SEQUENCE: Final = 46


class Vague(Exception):
    """No answer told whether a request had its effect, until the time was up."""


def name_and_index(place: str) -> tuple[str, int]:
    """Split a place into topic and partition."""
    name, _, index = place.rpartition("/")
    return name, int(index)


class Persistence:
    """Repeats a request until it is answered, and remembers whether an earlier one of them may have had its effect."""

    def __init__(self, client: Client, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        #: Whether the answer to one of the requests was lost.
        self.was_lost = False

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return what `attempt` returns. Raises Refused; Vague if the time is up and a request may have had an effect,
        and Lost if none can have.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        pause = _PAUSE_SECONDS
        while True:
            try:
                return await attempt()
            except Lost as error:
                self.was_lost |= not error.is_unsent
                failure: Exception = error
            except Refused as error:
                if error.code not in RETRIED | VAGUE:
                    raise
                self.was_lost |= error.code in VAGUE
                failure = error
            self._client.forget()
            if asyncio.get_running_loop().time() + pause > deadline:
                if self.was_lost:
                    raise Vague(str(failure)) from failure
                raise Lost(str(failure), is_unsent=True) from failure
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)


def check(code: int, api_key: int) -> None:
    """Raise Refused for an error code."""
    if code:
        raise Refused(code, api_key)


class Producer:
    """A producer of one generation: transactional with an id, else idempotent. `version` is 1 for TV1, 2 for TV2.

    `hurdle` is asked before each batch how often its request is sent and abandoned first, and whether the batch is
    repeated after its answer: what lost answers make clients do.
    """

    def __init__(
        self,
        client: Client,
        identity: str | None,
        version: int,
        *,
        seconds: float,
        now_ms: Callable[[], int],
        hurdle: Callable[[], tuple[int, bool]],
    ) -> None:
        self.identity = identity
        self.version = version
        self._client = client
        self._seconds = seconds
        self._now_ms = now_ms
        self._hurdle = hurdle
        self._producer_id = -1
        self._epoch = -1
        self._sequences: defaultdict[str, int] = defaultdict(int)
        self._added: set[str] = set()
        #: Whether a request of the transaction may arrive later, so that the epoch must not be used again.
        self.is_doubtful = False

    def _persistence(self) -> Persistence:
        return Persistence(self._client, self._seconds)

    async def _coordinated(
        self, pair: tuple[Message[Q], Message[R]], most: int, request: Q, kind: int, key: str
    ) -> R:
        node = await self._client.coordinator(kind, key)
        return await self._client.ask(node, pair, most, request)

    async def _settle(self, attempt: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return what `attempt` returns, and whether the answer to an earlier one was lost."""
        persistence = self._persistence()
        try:
            return await persistence.persist(attempt), persistence.was_lost
        except Refused as error:
            if persistence.was_lost:
                raise Vague(str(error)) from error
            raise
        finally:
            self.is_doubtful |= persistence.was_lost

    async def begin(self) -> None:
        """Get a producer id and an epoch, which fence earlier producers of the id. Raises Refused, Vague and Lost."""
        request = wire.InitProducerIdRequest(self.identity, TRANSACTION_TIMEOUT_MS)
        pair = (wire.INIT_PRODUCER_ID_REQUEST, wire.INIT_PRODUCER_ID_RESPONSE)

        async def attempt() -> tuple[int, int]:
            if self.identity is None:
                answer = await self._client.ask(-1, pair, _INIT, request)
            else:
                answer = await self._coordinated(pair, _INIT, request, TRANSACTION, self.identity)
            check(answer.error_code, wire.INIT_PRODUCER_ID_REQUEST.api_key)
            return answer.producer_id, answer.producer_epoch

        (self._producer_id, self._epoch), _ = await self._settle(attempt)
        self._sequences.clear()
        self._added.clear()
        self.is_doubtful = False

    async def send(self, place: str, values: Sequence[str]) -> list[int | None]:
        """Append a batch. Return the offset of its first record as each answer told it; None if one did not tell.

        Raises Refused, Vague and Lost.
        """
        name, index = name_and_index(place)
        if self.identity is not None and self.version == 1 and place not in self._added:
            await self._add_partition(name, index)
            self._added.add(place)
        who = kafka.Producer(
            self._producer_id, self._epoch, self._sequences[place], self.identity is not None
        )
        batch = memoryview(kafka.write_batch(values, who, self._now_ms()))
        request = ProduceRequest(
            self.identity,
            _ALL_REPLICAS,
            _SERVER_TIMEOUT_MS,
            [TopicProduceData(name, partition_data=[PartitionProduceData(index, batch)])],
        )
        abandoned, is_repeated = self._hurdle()

        async def attempt() -> int | None:
            nonlocal abandoned
            node = await self._client.leader(place)
            if abandoned:
                abandoned -= 1
                await self._client.abandon(node, PRODUCE_REQUEST, _PRODUCE[self.version], request)
                raise Lost("the connection was closed on purpose")
            pair = (PRODUCE_REQUEST, PRODUCE_RESPONSE)
            answer = await self._client.ask(node, pair, _PRODUCE[self.version], request)
            ((each,),) = [topic.partition_responses for topic in answer.responses]
            if each.error_code == _DUPLICATE_SEQUENCE:
                return None
            check(each.error_code, PRODUCE_REQUEST.api_key)
            return each.base_offset

        offsets = [(await self._settle(attempt))[0]]
        self._sequences[place] += len(values)
        if is_repeated:
            # It is acknowledged already, so an error of the repetition changes nothing.
            with suppress(Lost, Refused, Vague):
                offsets.append((await self._settle(attempt))[0])
        return offsets

    async def _add_partition(self, name: str, index: int) -> None:
        assert self.identity is not None
        identity = self.identity
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[wire.AddPartitionsToTxnTopic(name, [index])],
        )

        async def attempt() -> None:
            pair = (wire.ADD_PARTITIONS_TO_TXN_REQUEST, wire.ADD_PARTITIONS_TO_TXN_RESPONSE)
            answer = await self._coordinated(pair, _ADD_PARTITIONS, request, TRANSACTION, identity)
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    check(each.partition_error_code, wire.ADD_PARTITIONS_TO_TXN_REQUEST.api_key)

        await self._settle(attempt)

    async def commit_offset(self, group: str, place: str, offset: int) -> None:
        """Commit an offset of a group in the transaction. Raises Refused, Vague and Lost."""
        assert self.identity is not None
        identity = self.identity
        if self.version == 1 and group not in self._added:
            await self._add_group(group)
            self._added.add(group)
        name, index = name_and_index(place)
        request = TxnOffsetCommitRequest(
            identity,
            group,
            self._producer_id,
            self._epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name, partitions=[TxnOffsetCommitRequestPartition(index, offset)]
                )
            ],
        )

        async def attempt() -> None:
            pair = (TXN_OFFSET_COMMIT_REQUEST, TXN_OFFSET_COMMIT_RESPONSE)
            most = _TXN_OFFSETS[self.version]
            answer = await self._coordinated(pair, most, request, kafka.GROUP, group)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, TXN_OFFSET_COMMIT_REQUEST.api_key)

        await self._settle(attempt)

    async def _add_group(self, group: str) -> None:
        assert self.identity is not None
        identity = self.identity
        request = wire.AddOffsetsToTxnRequest(identity, self._producer_id, self._epoch, group)

        async def attempt() -> None:
            pair = (wire.ADD_OFFSETS_TO_TXN_REQUEST, wire.ADD_OFFSETS_TO_TXN_RESPONSE)
            answer = await self._coordinated(pair, _ADD_OFFSETS, request, TRANSACTION, identity)
            check(answer.error_code, wire.ADD_OFFSETS_TO_TXN_REQUEST.api_key)

        await self._settle(attempt)

    async def end(self, *, commits: bool) -> None:
        """Commit or abort. Raises Refused, Vague and Lost: then the producer must begin anew."""
        assert self.identity is not None
        identity = self.identity
        request = wire.EndTxnRequest(identity, self._producer_id, self._epoch, commits)

        async def attempt() -> Any:
            pair = (wire.END_TXN_REQUEST, wire.END_TXN_RESPONSE)
            most = _END_TXN[self.version]
            answer = await self._coordinated(pair, most, request, TRANSACTION, identity)
            check(answer.error_code, wire.END_TXN_REQUEST.api_key)
            return answer

        answer, _ = await self._settle(attempt)
        self._added.clear()
        if self.version > 1 and answer.producer_id >= 0:
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
