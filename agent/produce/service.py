"""Serves a Produce from end to end: finds topics, checks, queues, waits, answers (S2, S11).

agent/apis/k00_produce.py uses `ProduceService`. Everything up to the queue happens before the first await, so that
pipelined requests are queued in the order of their frames. If something has to be awaited (a session, a gap,
compression.type), the requests after it wait in one line.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lacuna.agent.api import MOST_OF_PIECE
from lacuna.agent.produce.buffer import (
    NOT_PERSISTED,
    STORE_FAILED,
    PendingBatch,
    RequestTicket,
    Verdict,
)
from lacuna.agent.produce.check import (
    MAX_NAMED_RECORDS,
    RulesByTopic,
    check_batch,
    failed,
    refuse_batch,
    refuse_transactional,
)
from lacuna.agent.produce.flush import Flusher, Lease
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.shared.batches import FLAG_TRANSACTIONAL
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_BY_NAME,
    READ_ONLY,
    internal_by_id,
)
from lacuna.controlplane.shared.pace import Pace
from lacuna.logstore.records.errors import RecordsError
from lacuna.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from lacuna.agent.clock import WallClock
    from lacuna.agent.fetch.service import FetchService
    from lacuna.controlplane.client import ControlClient
    from lacuna.controlplane.v1.cluster_pb2 import Topic
    from lacuna.logstore.objects.store import ObjectStore

_FIRST_RECORD_ERRORS: Final = 8
# From this version on a partition that was not added to the transaction is TRANSACTION_ABORTABLE (KIP-890).
_FIRST_ABORTABLE: Final = 11
# Clients before KIP-112 do not know KAFKA_STORAGE_ERROR, nor that they may retry after it.
_FIRST_STORAGE_ERROR: Final = 4
_ACKS: Final = frozenset({-1, 0, 1})
_NOTHING: Final = memoryview(b"")


class ProduceService:
    """Serves the Produce requests of one worker. `fetch`, if given, keeps batches that consumers wait for."""

    def __init__(
        self,
        *,
        control: "ControlClient",
        store: "ObjectStore",
        lease: Lease,
        clock: "WallClock",
        fetch: "FetchService | None" = None,
        settings: ProduceSettings | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.settings = settings or ProduceSettings()
        self.control = control
        self._clock = clock
        self._rules = RulesByTopic()
        self._door = asyncio.Lock()
        self._early_requests = 0
        self._line = asyncio.Lock()
        # One thread, as the line admits one request at a time; apart from the conversions for old clients.
        self._recompressing = ThreadPoolExecutor(1, "recompress")
        self._held_requests = 0
        self.flusher = Flusher(
            control=control,
            store=store,
            lease=lease,
            settings=self.settings,
            on_written=None if fetch is None else fetch.keep_written,
            pace=pace,
        )

    async def produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        """Return the answer once every batch of the request is durable or has failed."""
        if request.acks not in _ACKS:
            return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
        cluster = self.control.cluster
        if self._early_requests or not cluster.is_current:
            await self._cluster_is_current()
        now_ms = self._clock.now_ms()
        outcomes: list[PendingBatch | PartitionProduceResponse] = []
        batches: list[PendingBatch] = []
        most_named = MAX_NAMED_RECORDS if version >= _FIRST_RECORD_ERRORS else 0
        for topic in request.topic_data:
            known = cluster.topics_by_name.get(topic.name)
            if not topic.name:
                known = cluster.topics_by_id.get(topic.topic_id)
            for asked in topic.partition_data:
                outcome = self._check(request, version, topic, known, asked, now_ms, most_named)
                outcomes.append(outcome)
                if not len(outcomes) % MOST_OF_PIECE:  # no later request of the connection begins
                    await asyncio.sleep(0)
                if isinstance(outcome, PendingBatch):
                    batches.append(outcome)
                else:
                    most_named -= len(outcome.record_errors)
        if batches:
            ticket = RequestTicket(len(batches))
            for batch in batches:
                batch.ticket = ticket
            await self._submit(batches)
            await ticket.done
        return _answer(request, version, outcomes)

    async def _cluster_is_current(self) -> None:
        """Wait for a session, in the order of the requests.

        Counted as in `_submit`, so that a request that comes just when there is a session cannot overtake."""
        self._early_requests += 1
        try:
            async with self._door:
                await self.control.cluster.ready()
        finally:
            self._early_requests -= 1

    async def _submit(self, batches: list[PendingBatch]) -> None:
        """Queue batches: at once, unless one must be recompressed or an earlier one of its producer failed (S12)."""
        gaps = self.flusher.gaps
        is_ready = all(batch.recompression is None for batch in batches)
        if is_ready and not self._held_requests and not gaps.concern(batches):
            self.flusher.submit(batches)
            return
        # While one request waits here all others queue behind it, so that none overtakes. They are counted, since
        # the lock itself looks free between its release and the next one's turn.
        self._held_requests += 1
        try:
            async with self._line:
                await self._recompress(batches)
                fit = [batch for batch in batches if batch.verdict is None]
                await gaps.hold_back(fit, asyncio.get_running_loop().time())
                self.flusher.submit([batch for batch in fit if batch.verdict is None])
        finally:
            self._held_requests -= 1

    async def _recompress(self, batches: list[PendingBatch]) -> None:
        """Recompress batches in a thread; a batch that becomes too large is settled with an error."""
        loop = asyncio.get_running_loop()
        for batch in batches:
            if batch.recompression is None:
                continue
            try:
                batch.part = await loop.run_in_executor(
                    self._recompressing, batch.recompression.apply, batch.part
                )
            except RecordsError as error:
                refusal = refuse_batch(batch.key[1], error)
                batch.settle(Verdict(refusal.error_code, error_message=refusal.error_message))

    async def close(self) -> None:
        """Flush what is queued, then stop."""
        await self.flusher.close()
        self._recompressing.shutdown(wait=False)

    def _check(
        self,
        request: ProduceRequest,
        version: int,
        topic: TopicProduceData,
        known: "Topic | None",
        asked: PartitionProduceData,
        now_ms: int,
        most_named: int,
    ) -> PendingBatch | PartitionProduceResponse:
        """Return a batch to queue, or an error that names at most `most_named` faulty records."""
        internal = INTERNAL_BY_NAME.get(topic.name) or internal_by_id(topic.topic_id)
        if known is None and internal is not None:
            message = f"Cannot append to internal topic {internal.name}: {READ_ONLY}."
            return failed(asked.index_, ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        if known is None:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
            )
            return failed(asked.index_, code)
        if not 0 <= asked.index_ < known.partition_count:
            return failed(asked.index_, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        records = asked.records if asked.records is not None else _NOTHING
        key = (known.topic_id, asked.index_)
        try:
            batch = check_batch(records, key, self._rules.of(known), version, now_ms)
        except RecordsError as error:
            return refuse_batch(asked.index_, error, most_named)
        if batch.flags & FLAG_TRANSACTIONAL:
            if not request.transactional_id:
                return refuse_transactional(asked.index_, request.transactional_id)
            batch.transactional_id = request.transactional_id
        return batch


def refuse(request: ProduceRequest, error_code: int) -> ProduceResponse:
    """Answer every partition of a request with the same error."""
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [failed(asked.index_, error_code) for asked in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _answer(
    request: ProduceRequest, version: int, outcomes: list[PendingBatch | PartitionProduceResponse]
) -> ProduceResponse:
    """Build the answer in the order of the request."""
    rest = iter(outcomes)
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [
                    _partition_answer(version, topic.name, asked.index_, next(rest))
                    for asked in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _partition_answer(
    version: int, topic_name: str, partition: int, outcome: PendingBatch | PartitionProduceResponse
) -> PartitionProduceResponse:
    if isinstance(outcome, PartitionProduceResponse):
        return outcome
    verdict = outcome.verdict
    if verdict is None:
        raise AssertionError("a ticket is done when every batch has its verdict")
    return PartitionProduceResponse(
        partition,
        _known_as(verdict.error_code, version, topic_name, outcome),
        verdict.base_offset,
        verdict.log_append_time_ms,
        verdict.log_start_offset,
        error_message=verdict.error_message,
    )


def _known_as(error_code: int, version: int, topic_name: str, batch: PendingBatch) -> int:
    """Translate a batch's error to one that clients of that version know."""
    is_transactional = batch.flags & FLAG_TRANSACTIONAL
    if (
        error_code == ErrorCode.INVALID_TXN_STATE
        and is_transactional
        and version >= _FIRST_ABORTABLE
    ):
        return ErrorCode.TRANSACTION_ABORTABLE
    if error_code == ErrorCode.UNKNOWN_TOPIC_ID and topic_name:
        # It was deleted meanwhile; a client that sends names does not know the error for ids.
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if error_code == STORE_FAILED.error_code and version < _FIRST_STORAGE_ERROR:
        return NOT_PERSISTED.error_code
    return error_code
