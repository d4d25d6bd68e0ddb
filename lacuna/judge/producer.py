"""Producers that behave like Kafka clients, but hide nothing: a lost response shows in the outcome."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from lacuna.judge import client as kafka
from lacuna.judge.client import RETRIED, TRANSACTION, VAGUE, Api, Client, Lost, Refused
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

#: The highest versions that a client of each protocol generation uses (KIP-890). TV1 must add partitions; TV2 need not.
_PRODUCE: Final = {each: Api(PRODUCE_REQUEST, PRODUCE_RESPONSE, 10 + each) for each in (1, 2)}
_END_TXN: Final = {
    each: Api(wire.END_TXN_REQUEST, wire.END_TXN_RESPONSE, 3 + each) for each in (1, 2)
}
_TXN_OFFSETS: Final = {
    each: Api(TXN_OFFSET_COMMIT_REQUEST, TXN_OFFSET_COMMIT_RESPONSE, 3 + each) for each in (1, 2)
}
_INIT: Final = Api(wire.INIT_PRODUCER_ID_REQUEST, wire.INIT_PRODUCER_ID_RESPONSE, 5)
_ADD_PARTITIONS: Final = Api(
    wire.ADD_PARTITIONS_TO_TXN_REQUEST, wire.ADD_PARTITIONS_TO_TXN_RESPONSE, 3
)
_ADD_OFFSETS: Final = Api(wire.ADD_OFFSETS_TO_TXN_REQUEST, wire.ADD_OFFSETS_TO_TXN_RESPONSE, 4)

_ALL_REPLICAS: Final = -1
_SERVER_TIMEOUT_MS: Final = 10_000
#: The broker aborts a transaction after this time.
TRANSACTION_TIMEOUT_MS: Final = 10_000
_PAUSE_SECONDS: Final = 0.02
_MOST_PAUSE_SECONDS: Final = 0.5
_DUPLICATE_SEQUENCE: Final = 46


class Vague(Exception):
    """Time ran out before any response showed whether a request had taken effect."""


FAILURES: Final = (Lost, Refused, Vague)


def name_and_index(place: str) -> tuple[str, int]:
    name, _, index = place.rpartition("/")
    return name, int(index)


class Persistence:
    """Repeats a request until it succeeds, and remembers whether an earlier attempt may have taken effect."""

    def __init__(self, client: Client, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        #: Whether the answer to one of the requests was lost.
        self.was_lost = False

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` until it succeeds, and return its result.

        Raises Refused for an error that a retry cannot fix. When time is up, raises Vague if an attempt may have taken
        effect, and Lost if none can have.
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


class Producer:
    """A producer of one generation, transactional if it has an id, otherwise idempotent.

    `version` is 1 for TV1 and 2 for TV2. `hurdle` is called before each batch to imitate what clients do when responses
    are lost. It returns how many times to send and abandon the request first, and whether to send it again after its
    response.
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

    async def _coordinated(
        self, api: Api[Q, R], request: Q, key: str | None, kind: int = TRANSACTION
    ) -> R:
        """Send a request to a key's coordinator, or to any node if `key` is None. Raises Refused, Vague and Lost."""

        async def attempt() -> R:
            node = -1 if key is None else await self._client.coordinator(kind, key)
            return await self._client.done(node, api, request)

        return await self._settle(attempt)

    async def _settle(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` until it succeeds, and note whether a response to an earlier attempt was lost."""
        persistence = Persistence(self._client, self._seconds)
        try:
            return await persistence.persist(attempt)
        except Refused as error:
            if persistence.was_lost:
                raise Vague(str(error)) from error
            raise
        finally:
            self.is_doubtful |= persistence.was_lost

    async def begin(self) -> None:
        """Obtain a producer id and an epoch, fencing earlier producers with the same id. Raises Refused, Vague and
        Lost.
        """
        request = wire.InitProducerIdRequest(self.identity, TRANSACTION_TIMEOUT_MS)
        answer = await self._coordinated(_INIT, request, self.identity)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self._added.clear()
        self.is_doubtful = False

    async def send(self, place: str, values: Sequence[str]) -> list[int | None]:
        """Append a batch. For each response, return the offset of the batch's first record, or None if the response
        contains no offset.

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
        api = _PRODUCE[self.version]
        abandoned, is_repeated = self._hurdle()

        async def attempt() -> int | None:
            nonlocal abandoned
            node = await self._client.leader(place)
            if abandoned:
                abandoned -= 1
                await self._client.abandon(node, api, request)
                raise Lost("the connection was closed on purpose")
            answer = await self._client.ask(node, api, request)
            ((each,),) = [topic.partition_responses for topic in answer.responses]
            if each.error_code not in (0, _DUPLICATE_SEQUENCE):
                raise Refused(each.error_code, api.request.api_key)
            return None if each.error_code else each.base_offset

        offsets = [await self._settle(attempt)]
        self._sequences[place] += len(values)
        if is_repeated:
            # The batch has already been acknowledged, so an error when it is repeated changes nothing.
            with suppress(*FAILURES):
                offsets.append(await self._settle(attempt))
        return offsets

    async def _add_partition(self, name: str, index: int) -> None:
        assert self.identity is not None
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.identity,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[wire.AddPartitionsToTxnTopic(name, [index])],
        )
        await self._coordinated(_ADD_PARTITIONS, request, self.identity)

    async def commit_offset(self, group: str, place: str, offset: int) -> None:
        """Commit a group's offset as part of the transaction. Raises Refused, Vague and Lost."""
        assert self.identity is not None
        if self.version == 1 and group not in self._added:
            added = wire.AddOffsetsToTxnRequest(
                self.identity, self._producer_id, self._epoch, group
            )
            await self._coordinated(_ADD_OFFSETS, added, self.identity)
            self._added.add(group)
        name, index = name_and_index(place)
        request = TxnOffsetCommitRequest(
            self.identity,
            group,
            self._producer_id,
            self._epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name, partitions=[TxnOffsetCommitRequestPartition(index, offset)]
                )
            ],
        )
        await self._coordinated(_TXN_OFFSETS[self.version], request, group, kafka.GROUP)

    async def end(self, *, commits: bool) -> None:
        """Commit or abort the transaction. Raises Refused, Vague and Lost, after which `begin` must be called."""
        assert self.identity is not None
        request = wire.EndTxnRequest(self.identity, self._producer_id, self._epoch, commits)
        answer = await self._coordinated(_END_TXN[self.version], request, self.identity)
        self._added.clear()
        if self.version > 1 and answer.producer_id >= 0:
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
