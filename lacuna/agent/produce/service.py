"""Serves a Produce request from end to end: finds the topics, checks and queues the batches, waits for them, and
answers (S2, S11).

Everything up to the queue happens before the first await, so that pipelined requests are queued in the order of their
frames. If a request waits for a session, all later requests wait behind it. If a batch waits (because of a gap or
compression.type), only later batches from the same producer for the same partition wait (lanes.py).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lacuna.agent.clock import WallClock
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.hot import HotStore
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.produce.buffer import (
    NOT_PERSISTED,
    STORE_FAILED,
    LateCheck,
    PendingBatch,
    RequestTicket,
    Verdict,
)
from lacuna.agent.produce.check import (
    FEW_BYTES,
    MAX_NAMED_RECORDS,
    RulesByTopic,
    check_batch,
    failed,
    is_quick,
    most_named_of,
    refuse_batch,
    refuse_transactional,
    unchecked,
)
from lacuna.agent.produce.flush import Flusher, Lease
from lacuna.agent.produce.joins import FIRST_IMPLICIT_ADD, Join, join_all, join_of
from lacuna.agent.produce.lanes import Lanes, Place
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.base.pace import Pace
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.batches import FLAG_ADDS_PARTITION, FLAG_TRANSACTIONAL
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_BY_NAME,
    READ_ONLY,
    internal_by_id,
)
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.topic_configs import MIRROR_SOURCE
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.objects.store import ObjectStore
from lacuna.logstore.records.errors import DecompressedTooLargeError, RecordsError
from lacuna.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_FIRST_RECORD_ERRORS: Final = 8
# From this version on, a partition that was not added to the transaction returns TRANSACTION_ABORTABLE (KIP-890).
_FIRST_ABORTABLE: Final = 11
# Clients before KIP-112 do not recognize KAFKA_STORAGE_ERROR as a retriable error.
_FIRST_STORAGE_ERROR: Final = 4
_ACKS: Final = frozenset({-1, 0, 1})
_NOTHING: Final = memoryview(b"")
# The same number as for conversions for old clients (agent/threads.py), since the event loop also needs the CPUs.
_RECOMPRESSING_THREADS: Final = 2


@dataclass(slots=True)
class _Intake:
    """The outcomes of one request's batches, in the order of the request.

    Its answers may list up to `most_named` more faulty records.
    """

    request: ProduceRequest
    version: int
    now_ms: int
    most_named: int
    outcomes: list[PendingBatch | PartitionProduceResponse] = field(default_factory=list)
    batches: list[PendingBatch] = field(default_factory=list)
    #: index in `outcomes` -> the partition that joins the transaction although its batch was rejected
    joins: dict[int, Join] = field(default_factory=dict)


class ProduceService:
    """Serves the Produce requests of one worker. `fetch`, if given, keeps batches for which consumers are waiting."""

    def __init__(
        self,
        *,
        control: ControlClient,
        store: ObjectStore,
        lease: Lease,
        clock: WallClock,
        hot: HotStore,
        fetch: FetchService | None = None,
        settings: ProduceSettings | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.settings = settings or ProduceSettings()
        self.control = control
        self._clock = clock
        self._rules = RulesByTopic()
        self._door = asyncio.Lock()
        self._early_requests = 0
        self.lanes = Lanes()
        self._recompressing = ThreadPoolExecutor(_RECOMPRESSING_THREADS, "recompress")
        self.flusher = Flusher(
            control=control,
            store=store,
            lease=lease,
            settings=self.settings,
            hot=hot,
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
        intake = _Intake(
            request,
            version,
            self._clock.now_ms(),
            MAX_NAMED_RECORDS if version >= _FIRST_RECORD_ERRORS else 0,
        )
        for topic in request.topic_data:
            known = cluster.topics_by_name.get(topic.name)
            if not topic.name:
                known = cluster.topics_by_id.get(topic.topic_id)
            for asked in topic.partition_data:
                intake.outcomes.append(self._check(intake, topic, known, asked))
                if not len(intake.outcomes) % MOST_OF_PIECE:
                    await asyncio.sleep(
                        0
                    )  # no later request on the connection begins in the meantime
        if intake.batches:
            ticket = RequestTicket(len(intake.batches))
            for batch in intake.batches:
                batch.ticket = ticket
            await self._submit(intake.batches)
            await ticket.done
        if intake.joins:
            await self._join_refused(intake)
        return await _answer(request, version, intake.outcomes)

    async def _cluster_is_current(self) -> None:
        """Wait for a session, in the order of the requests.

        The waiting requests are counted, because the lock looks free for a moment before the next of them takes it, and
        a request that arrives then must not overtake them.
        """
        self._early_requests += 1
        try:
            async with self._door:
                await self.control.cluster.ready()
        finally:
            self._early_requests -= 1

    async def _submit(self, batches: list[PendingBatch]) -> None:
        """Queue batches now, unless one must wait for a check, compression or another batch (S12)."""
        ready: list[PendingBatch] = []
        place = Place()
        for batch in batches:
            if self._must_wait(batch):
                self.lanes.enter(place, batch)
            else:
                ready.append(batch)
        if ready:
            self.flusher.submit(ready)
        if place.batches:
            await self._submit_later(place)

    def _must_wait(self, batch: PendingBatch) -> bool:
        return (
            batch.recompression is not None
            or batch.late_check is not None
            or self.lanes.hold(batch)
            or self.flusher.gaps.concern(batch)
        )

    async def _submit_later(self, place: Place) -> None:
        """Queue batches after those ahead of them. To save memory, they are recompressed only then."""
        try:
            await place.is_first()
            for batch in place.batches:
                await self._check_late(batch)
                await self._recompress(batch)
            fit = [batch for batch in place.batches if batch.verdict is None]
            await self.flusher.gaps.hold_back(fit, asyncio.get_running_loop().time())
            self.flusher.submit([batch for batch in fit if batch.verdict is None])
        finally:
            self.lanes.leave(place)

    async def _check_late(self, batch: PendingBatch) -> None:
        """Check a batch in a thread if its check is slow. If the batch is rejected, it is settled with an error."""
        if batch.late_check is None:
            return
        loop = asyncio.get_running_loop()
        try:
            checked = await loop.run_in_executor(self._recompressing, batch.late_check.check)
        except RecordsError as error:
            batch.late_check.refuse(error)
            batch.settle(
                Verdict(ErrorCode.UNKNOWN_SERVER_ERROR)
            )  # the answer reports the rejection
            return
        batch.part, batch.record_count = checked.part, checked.record_count
        batch.max_timestamp, batch.flags = checked.max_timestamp, checked.flags
        batch.recompression = checked.recompression

    async def _recompress(self, batch: PendingBatch) -> None:
        """Recompress a batch in a thread, if needed. If the batch becomes too large, it is settled with an error."""
        if batch.recompression is None or batch.verdict is not None:
            return
        loop = asyncio.get_running_loop()
        try:
            batch.part = await loop.run_in_executor(
                self._recompressing, batch.recompression.apply, batch.part
            )
        except RecordsError as error:
            refusal = refuse_batch(batch.key[1], error)
            verdict = Verdict(refusal.error_code, error_message=refusal.error_message)
            if batch.flags & FLAG_ADDS_PARTITION:
                join = Join(batch.key, batch.producer_id, batch.producer_epoch)
                code = await join_all(self.control, batch.transactional_id, [join])
                verdict = Verdict(code) if code else verdict
            batch.settle(verdict)

    async def _join_refused(self, intake: _Intake) -> None:
        """Let the partitions of rejected batches join their transaction. If that fails, answer with the error."""
        transactional_id = intake.request.transactional_id or ""
        code = await join_all(self.control, transactional_id, list(intake.joins.values()))
        if not code:
            return
        for index, join in intake.joins.items():
            intake.outcomes[index] = failed(join.key[1], code)

    async def close(self) -> None:
        """Flush the queued batches, and then stop."""
        await self.flusher.close()
        self._recompressing.shutdown(wait=False)

    def _check(
        self,
        intake: _Intake,
        topic: TopicProduceData,
        known: Topic | None,
        asked: PartitionProduceData,
    ) -> PendingBatch | PartitionProduceResponse:
        """Return either a batch to queue, which is then part of the intake, or an error."""
        if known is None:
            return _refuse_unknown(topic, asked.index_)
        if not 0 <= asked.index_ < known.partition_count:
            return failed(asked.index_, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if source := known.configs.get(MIRROR_SOURCE):
            message = (
                f"Cannot append to topic {known.name}, which mirrors {source}: run `lacuna import promote "
                f"{known.name}` to end the mirroring."
            )
            return failed(asked.index_, ErrorCode.POLICY_VIOLATION, message)
        records = asked.records if asked.records is not None else _NOTHING
        key = (known.topic_id, asked.index_)
        rules = self._rules.of(known)
        asked_check = (records, key, rules, intake.version, intake.now_ms)
        index = len(intake.outcomes)
        try:
            batch = check_batch(*asked_check, FEW_BYTES) if is_quick(records) else None
        except DecompressedTooLargeError:  # a thread may check a batch with more bytes
            batch = None
        except RecordsError as error:
            return self._refuse(intake, index, key, records, error)
        if batch is None:
            refused = partial(self._refuse_late, intake, index, key, records)
            late = LateCheck(partial(check_batch, *asked_check), refused)
            try:
                batch = unchecked(records, key, rules, late)
            except RecordsError as error:
                return self._refuse(intake, index, key, records, error)
        if batch.flags & FLAG_TRANSACTIONAL:
            transactional_id = intake.request.transactional_id
            if not transactional_id:
                return refuse_transactional(asked.index_, transactional_id)
            batch.transactional_id = transactional_id
        intake.batches.append(batch)
        return batch

    def _refuse_late(
        self,
        intake: _Intake,
        index: int,
        key: PartitionKey,
        records: memoryview,
        error: RecordsError,
    ) -> None:
        intake.outcomes[index] = self._refuse(intake, index, key, records, error)

    def _refuse(
        self,
        intake: _Intake,
        index: int,
        key: PartitionKey,
        records: memoryview,
        error: RecordsError,
    ) -> PartitionProduceResponse:
        """Return the answer for a rejected batch, whose partition may still have to join the transaction."""
        if intake.version >= FIRST_IMPLICIT_ADD and intake.request.transactional_id:
            join = join_of(key, records)
            if join is not None:
                intake.joins[index] = join
        most_named = min(intake.most_named, most_named_of(records))
        refusal = refuse_batch(key[1], error, most_named)
        intake.most_named -= len(refusal.record_errors)
        return refusal


def _refuse_unknown(topic: TopicProduceData, partition: int) -> PartitionProduceResponse:
    """Return the answer for a partition that does not exist or that producers cannot write to."""
    internal = INTERNAL_BY_NAME.get(topic.name) or internal_by_id(topic.topic_id)
    if internal is not None:
        message = f"Cannot append to internal topic {internal.name}: {READ_ONLY}."
        return failed(partition, ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
    return failed(partition, code)


def refuse(request: ProduceRequest, error_code: int) -> ProduceResponse:
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


async def _answer(
    request: ProduceRequest, version: int, outcomes: list[PendingBatch | PartitionProduceResponse]
) -> ProduceResponse:
    topics: list[TopicProduceResponse] = []
    count = 0
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        for asked in topic.partition_data:
            answers.append(_partition_answer(version, topic.name, asked.index_, outcomes[count]))
            count += 1
            if not count % MOST_OF_PIECE:
                await asyncio.sleep(0)
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return ProduceResponse(topics)


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
    """Translate a batch's error to one that clients of the request's version recognize."""
    is_transactional = batch.flags & FLAG_TRANSACTIONAL
    if (
        error_code == ErrorCode.INVALID_TXN_STATE
        and is_transactional
        and version >= _FIRST_ABORTABLE
    ):
        return ErrorCode.TRANSACTION_ABORTABLE
    if error_code == ErrorCode.UNKNOWN_TOPIC_ID and topic_name:
        # The topic was deleted in the meantime. A client that sends topic names does not recognize the error for ids.
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if error_code == STORE_FAILED.error_code and version < _FIRST_STORAGE_ERROR:
        return NOT_PERSISTED.error_code
    return error_code
