"""A Produce from end to end: resolve, check, queue, wait, answer (S2, S11).

`ProduceService` is what agent/apis/produce.py holds on to. Everything up to the queue happens before
the first await, so that pipelined requests enter in the order of their frames; where something has to be
awaited (a gap, compression.type), the requests behind wait in one line.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from agent.produce.buffer import (
    NOT_PERSISTED,
    STORE_FAILED,
    PendingBatch,
    RequestTicket,
    Verdict,
)
from agent.produce.check import (
    RulesByTopic,
    check_batch,
    refuse_batch,
    refuse_transactional,
)
from agent.produce.codec import (
    PartitionAnswer,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    TopicAnswer,
)
from agent.produce.flush import Flusher, Lease, Pace
from agent.produce.settings import ProduceSettings
from controlplane.batches import FLAG_TRANSACTIONAL
from controlplane.errors import ErrorCode
from logstore.records.errors import RecordsError

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.fetch.service import FetchService
    from controlplane.client import ControlClient
    from controlplane.v1.cluster_pb2 import Topic
    from logstore.objects.store import ObjectStore

INVALID_REQUIRED_ACKS: Final = 21
# A partition that its transaction does not have is TRANSACTION_ABORTABLE from here on (KIP-890).
_FIRST_ABORTABLE: Final = 11
# Before KIP-112 clients know no KAFKA_STORAGE_ERROR, nor that they may try again.
_FIRST_STORAGE_ERROR: Final = 4
_ACKS: Final = frozenset({-1, 0, 1})
_NOTHING: Final = memoryview(b"")


class ProduceService:
    """The producing of one worker. `fetch` keeps what its consumers wait for (None: nobody does)."""

    def __init__(
        self,
        *,
        control: "ControlClient",
        store: "ObjectStore",
        lease: Lease,
        clock: "Clock",
        fetch: "FetchService | None" = None,
        settings: ProduceSettings | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.settings = settings or ProduceSettings()
        self._control = control
        self._clock = clock
        self._rules = RulesByTopic()
        self._line = asyncio.Lock()
        # One at a time, as the line is, and not behind the conversions of old clients.
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

    async def produce(self, request: ProduceRequest) -> ProduceResponse:
        """The answer, when everything of the request is durable or has failed."""
        if request.acks not in _ACKS:
            return refuse(request, INVALID_REQUIRED_ACKS)
        cluster = self._control.cluster
        if not cluster.is_current:
            await cluster.ready()
        now_ms = self._clock.now_ms()
        outcomes: list[PendingBatch | PartitionAnswer] = []
        batches: list[PendingBatch] = []
        for topic in request.topics:
            known = cluster.topics_by_name.get(topic.name)
            if not topic.name:
                known = cluster.topics_by_id.get(topic.topic_id)
            for asked in topic.partitions:
                outcome = self._check(request, topic, known, asked, now_ms)
                outcomes.append(outcome)
                if isinstance(outcome, PendingBatch):
                    batches.append(outcome)
        if batches:
            ticket = RequestTicket(len(batches))
            for batch in batches:
                batch.ticket = ticket
            await self._submit(batches)
            await ticket.done
        return _answer(request, outcomes)

    async def _submit(self, batches: list[PendingBatch]) -> None:
        """Queue batches; at once, unless an earlier one of their producers failed (S12) or a codec changes."""
        gaps = self.flusher.gaps
        is_ready = all(batch.recompression is None for batch in batches)
        if is_ready and not self._held_requests and not gaps.concern(batches):
            self.flusher.submit(batches)
            return
        # Everything queues here while somebody asks, so that nothing overtakes. They are counted,
        # since between a release and the next one's turn the lock itself looks free.
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
        """Give batches their topics' codecs, off the loop; one that grows too large has its verdict."""
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
        """Flush what is queued, then end."""
        await self.flusher.close()
        self._recompressing.shutdown(wait=False)

    def _check(
        self,
        request: ProduceRequest,
        topic: ProduceTopic,
        known: "Topic | None",
        asked: ProducePartition,
        now_ms: int,
    ) -> PendingBatch | PartitionAnswer:
        """A batch to queue, or why there is none."""
        if known is None:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
            )
            return PartitionAnswer(asked.partition, code)
        if not 0 <= asked.partition < known.partition_count:
            return PartitionAnswer(asked.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        records = asked.records if asked.records is not None else _NOTHING
        key = (known.topic_id, asked.partition)
        try:
            batch = check_batch(records, key, self._rules.of(known), request.version, now_ms)
        except RecordsError as error:
            return refuse_batch(asked.partition, error)
        if batch.flags & FLAG_TRANSACTIONAL:
            if not request.transactional_id:
                return refuse_transactional(asked.partition, request.transactional_id)
            batch.transactional_id = request.transactional_id
        return batch


def refuse(request: ProduceRequest, error_code: int) -> ProduceResponse:
    """Every partition of a request fails alike."""
    return ProduceResponse(
        [
            TopicAnswer(
                topic.name,
                topic.topic_id,
                [PartitionAnswer(asked.partition, error_code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    request: ProduceRequest, outcomes: list[PendingBatch | PartitionAnswer]
) -> ProduceResponse:
    """The answer in the order of the request."""
    rest = iter(outcomes)
    return ProduceResponse(
        [
            TopicAnswer(
                topic.name,
                topic.topic_id,
                [
                    _partition_answer(request.version, topic.name, asked.partition, next(rest))
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition_answer(
    version: int, topic_name: str, partition: int, outcome: PendingBatch | PartitionAnswer
) -> PartitionAnswer:
    if isinstance(outcome, PartitionAnswer):
        return outcome
    verdict = outcome.verdict
    if verdict is None:
        raise AssertionError("a ticket is done when every batch has its verdict")
    return PartitionAnswer(
        partition,
        _known_as(verdict.error_code, version, topic_name, outcome),
        verdict.base_offset,
        verdict.log_append_time_ms,
        verdict.log_start_offset,
        error_message=verdict.error_message,
    )


def _known_as(error_code: int, version: int, topic_name: str, batch: PendingBatch) -> int:
    """A batch's error as clients of that version know it."""
    is_transactional = batch.flags & FLAG_TRANSACTIONAL
    if (
        error_code == ErrorCode.INVALID_TXN_STATE
        and is_transactional
        and version >= _FIRST_ABORTABLE
    ):
        return ErrorCode.TRANSACTION_ABORTABLE
    if error_code == ErrorCode.UNKNOWN_TOPIC_ID and topic_name:
        # It was deleted meanwhile; who names topics does not know ids, nor their error.
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if error_code == STORE_FAILED.error_code and version < _FIRST_STORAGE_ERROR:
        return NOT_PERSISTED.error_code
    return error_code
