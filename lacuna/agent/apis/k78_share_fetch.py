"""ShareFetch v1-v2 and ShareAcknowledge v1-v2: let members of share groups acquire and acknowledge records (KIP-932).

A ShareFetch may also acknowledge records before it acquires others from its session's partitions. The control plane
decides both in one command (verbs/groups/share_records.py), and the agent reads the acquired records. If no records are
available, the fetch waits until a partition grows, a lock expires, or another member releases records.

Sessions (agent/share_sessions.py) have epochs. Epoch 0 opens a session, and -1 closes it and releases the records that
the member holds. An answer lists only partitions with records, with acknowledgements or with an error. v2 adds the
renewal of locks (KIP-1222) and acquire modes (KIP-1206): in either mode, this agent never acquires more than
`max_records`, as the mode `record_limit` promises. If only part of a batch is acquired, the whole batch is sent.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from lacuna.agent.api import Api, Call
from lacuna.agent.fetch.acquired import read_acquired
from lacuna.agent.fetch.loading import ExtentError
from lacuna.agent.fetch.lookup import first_at_or_after
from lacuna.agent.guards.groups import share_records as guard
from lacuna.agent.internal import topic_by_id
from lacuna.agent.quotas.limits import CONSUMED
from lacuna.agent.share_sessions import CLOSING_EPOCH, OPENING_EPOCH, SessionError, ShareSession
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.share_pb2 import (
    AcknowledgedRange,
    RecordsShared,
    SharedPartition,
    SharePartitionRequest,
    ShareRecords,
)
from lacuna.controlplane.v1.share_pb2 import AcquiredRecords as AcquiredRun
from lacuna.wire.messages import share_records as wire

log = logging.getLogger("lacuna.agent.share")

P = TypeVar("P")

_GAP: Final = 0
_RENEW: Final = 4
_RELEASE: Final = 2
#: The minimum time before a fetch that found nothing sends another request to the control plane.
_PACE_SECONDS: Final = 0.02

NO_HOLES: Final[Mapping[PartitionKey, int]] = {}
#: Returns whether the client may read a topic.
MayRead: TypeAlias = Callable[[str], bool]
Acknowledged: TypeAlias = Mapping[PartitionKey, Sequence[wire.AcknowledgementBatch]]


async def fetch(
    call: Call, request: wire.ShareFetchRequest, may_read: MayRead | None = None
) -> wire.ShareFetchResponse:
    """Answer with acquired records that the client may read. If `may_read` is None, it may read all records."""
    if wrong := _wrong(request, _acknowledged(request)):
        return wire.ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=wrong)
    try:
        session = _session(call, request)
    except SessionError as error:
        return wire.ShareFetchResponse(error_code=error.code, error_message=str(error))
    work = _Fetch(call, request, session, may_read)
    await work.run()
    return work.response()


async def acknowledge(
    call: Call, request: wire.ShareAcknowledgeRequest, may_read: MayRead | None = None
) -> wire.ShareAcknowledgeResponse:
    """Acknowledge records that the client may read. If `may_read` is None, it may read all records."""
    asked = _acknowledged(request)
    if wrong := _wrong(request, asked):
        return wire.ShareAcknowledgeResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=wrong
        )
    sessions, now = call.context.shares, asyncio.get_running_loop().time()
    group_id, member_id = request.group_id or "", request.member_id or ""
    try:
        if request.share_session_epoch == CLOSING_EPOCH:
            session = sessions.close(group_id, member_id)
        else:
            session = sessions.go_on(group_id, member_id, request.share_session_epoch, now)
    except SessionError as error:
        return wire.ShareAcknowledgeResponse(error_code=error.code, error_message=str(error))
    is_closing = request.share_session_epoch == CLOSING_EPOCH
    keys = dict.fromkeys([*asked, *(session.partitions if is_closing else ())])
    denied = await _denied(call, keys, may_read)
    shared = await _share(
        call, request, [key for key in keys if key not in denied], asked, releases=is_closing
    )
    answers = {
        key: wire.PartitionData(key[1], code) for key, code in denied.items() if key in asked
    }
    for key, answer in shared.answers.items():
        code, message = _acknowledge_error(answer)
        if key in asked:
            answers[key] = wire.PartitionData(key[1], code, message)
    return wire.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shared.lock_duration_ms,
        responses=[
            wire.ShareAcknowledgeTopicResponse(topic_id, partitions)
            for topic_id, partitions in _by_topic(answers).items()
        ],
    )


def _acknowledged(request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest) -> Acknowledged:
    return {
        (topic.topic_id, each.partition_index): each.acknowledgement_batches
        for topic in request.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


def _wrong(
    request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest, asked: Acknowledged
) -> str:
    """Return why a request is invalid regardless of its session, or "" if it is valid."""
    if asked and request.share_session_epoch == OPENING_EPOCH:
        return "The first request of a share session cannot acknowledge records."
    batches = [batch for each in asked.values() for batch in each]
    for batch in batches:
        count = batch.last_offset - batch.first_offset + 1
        if count < 1 or len(batch.acknowledge_types) not in (1, count):
            return (
                "An acknowledgement must have one type for all its records, or one type for each."
            )
        if not all(0 <= kind <= _RENEW for kind in batch.acknowledge_types):
            return "Acknowledge types are 0 (gap) to 4 (renew)."
    if not request.is_renew_ack and any(_RENEW in batch.acknowledge_types for batch in batches):
        return "The request renews locks, but its is_renew_ack is not set."
    return ""


def _session(call: Call, request: wire.ShareFetchRequest) -> ShareSession:
    """Open, continue or close the session that the request names. Raises SessionError if its epoch is wrong."""
    sessions, now = call.context.shares, asyncio.get_running_loop().time()
    group_id, member_id = request.group_id or "", request.member_id or ""
    if request.share_session_epoch == CLOSING_EPOCH:
        return sessions.close(group_id, member_id)
    if request.share_session_epoch == OPENING_EPOCH:
        session = sessions.open(group_id, member_id, now)
    else:
        session = sessions.go_on(group_id, member_id, request.share_session_epoch, now)
    session.update(
        (
            (topic.topic_id, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        ),
        (
            (topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ),
    )
    return session


@dataclass(slots=True)
class _Shared:
    """The control plane's answers to a command, by partition."""

    answers: dict[PartitionKey, SharedPartition]
    lock_duration_ms: int = 0
    next_expiry_ms: int | None = None


class _Wake:
    """Wakes a waiting fetch once a partition has changed or another member has released records."""

    __slots__ = ("_asked_at", "_event", "_group_id", "_loop", "_shares", "_views")

    def __init__(self, call: Call, group_id: str, keys: Iterable[PartitionKey]) -> None:
        self._loop = asyncio.get_running_loop()
        self._shares = call.context.shares
        self._group_id = group_id
        self._views = [call.context.control.partition(*key) for key in keys]
        self._asked_at = self.now()

    def __enter__(self) -> "_Wake":
        self._event = self._shares.wait_in(self._group_id)
        for view in self._views:
            view.add_listener(self._event.set)
        return self

    def __exit__(self, *_: object) -> None:
        for view in self._views:
            view.remove_listener(self._event.set)
        self._shares.stop_waiting(self._group_id, self._event)

    def now(self) -> float:
        return self._loop.time()

    async def wait(self, seconds: float, next_expiry_ms: int | None) -> None:
        """Wait up to `seconds` for records to acquire. The next lock expires `next_expiry_ms` from now."""
        if next_expiry_ms is not None:
            seconds = min(seconds, next_expiry_ms / 1000 + _PACE_SECONDS)
        timer = self._loop.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
        early = self._asked_at + _PACE_SECONDS - self.now()
        if early > 0:
            await asyncio.sleep(early)
        self._asked_at = self.now()
        self._event.clear()


class _Fetch:
    __slots__ = ("_answers", "_call", "_hole_ends", "_lock_ms", "_may_read", "_request", "_session")

    def __init__(
        self,
        call: Call,
        request: wire.ShareFetchRequest,
        session: ShareSession,
        may_read: MayRead | None,
    ) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._may_read = may_read
        self._lock_ms = 0
        self._hole_ends: dict[PartitionKey, int] = {}
        self._answers: dict[PartitionKey, wire.ShareFetchResponsePartitionData] = {}

    async def run(self) -> None:
        """Serve the fetch. Raises ControlPlaneUnavailable."""
        request = self._request
        asked = _acknowledged(request)
        is_closing = request.share_session_epoch == CLOSING_EPOCH
        keys = [*dict.fromkeys([*self._session.partitions, *asked])]
        denied = await _denied(self._call, keys, self._may_read)
        for key, code in denied.items():
            self._answers[key] = wire.ShareFetchResponsePartitionData(key[1], code)
        keys = [key for key in keys if key not in denied]
        acquires = not is_closing and request.max_records > 0 and request.max_bytes > 0
        with _Wake(self._call, request.group_id or "", keys if acquires else ()) as wake:
            deadline = wake.now() + request.max_wait_ms / 1000
            while True:
                shared = await self._ask_with(keys, asked, releases=is_closing, acquires=acquires)
                self._note(shared, asked)
                asked = await self._read(shared)
                left = deadline - wake.now()
                is_over = left <= 0 or self._call.context.shares.is_ending
                if self._answers or not acquires or not keys or is_over:
                    break
                if not asked:
                    await wake.wait(left, shared.next_expiry_ms)
            if asked:
                await self._ask_with(keys, asked)
        self._session.rotate()

    def _note(self, shared: _Shared, asked: Acknowledged) -> None:
        self._lock_ms = shared.lock_duration_ms
        for key, answer in shared.answers.items():
            code, message = _acknowledge_error(answer)
            if key in asked or answer.error_code:
                self._answers[key] = wire.ShareFetchResponsePartitionData(
                    key[1],
                    answer.error_code,
                    acknowledge_error_code=code if key in asked else 0,
                    acknowledge_error_message=message if key in asked else None,
                )

    async def _ask_with(
        self, keys: Sequence[PartitionKey], asked: Acknowledged, **what: bool
    ) -> _Shared:
        hole_ends, self._hole_ends = self._hole_ends, {}
        return await _share(self._call, self._request, keys, asked, hole_ends, **what)

    async def _read(self, shared: _Shared) -> Acknowledged:
        """Read the acquired records, and return acknowledgements for the offsets among them that have no records."""
        gaps: dict[PartitionKey, Sequence[wire.AcknowledgementBatch]] = {}
        for key, answer in shared.answers.items():
            if not answer.acquired:
                continue
            data = self._answers.get(key, wire.ShareFetchResponsePartitionData(key[1]))
            ranges = [(each.first_offset, each.last_offset + 1) for each in answer.acquired]
            view = self._call.context.control.partition(*key)
            try:
                read = await read_acquired(self._call.context.fetch, view, ranges)
            except ExtentError as error:
                log.warning("a share fetch failed: %s", error)
                await self._give_back(key, ranges)
                data = data._replace(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                if read.holes:
                    gaps[key] = [
                        wire.AcknowledgementBatch(first, end - 1, (_GAP,))
                        for first, end in read.holes
                    ]
                    self._hole_ends[key] = read.hole_end
                acquired = _without(answer.acquired, read.holes)
                if not acquired and key not in self._answers:
                    continue
                data = data._replace(records=read.records, acquired_records=acquired)
            self._answers[key] = data
        return gaps

    async def _give_back(self, key: PartitionKey, ranges: Iterable[tuple[int, int]]) -> None:
        batches = [wire.AcknowledgementBatch(first, end - 1, (_RELEASE,)) for first, end in ranges]
        await _share(self._call, self._request, [key], {key: batches})

    def response(self) -> wire.ShareFetchResponse:
        return wire.ShareFetchResponse(
            acquisition_lock_timeout_ms=self._lock_ms,
            responses=[
                wire.ShareFetchableTopicResponse(topic_id, partitions)
                for topic_id, partitions in _by_topic(self._answers).items()
            ],
        )


async def _denied(
    call: Call, keys: Iterable[PartitionKey], may_read: MayRead | None
) -> dict[PartitionKey, int]:
    """Return an error code for each partition that does not exist or that the client may not read."""
    keys = [*keys]
    cluster = call.context.control.cluster
    if any(topic_by_id(cluster, topic_id) is None for topic_id, _ in keys):
        cluster = await current_view(call.context)
    denied: dict[PartitionKey, int] = {}
    for key in keys:
        topic = topic_by_id(cluster, key[0])
        if topic is None:
            denied[key] = ErrorCode.UNKNOWN_TOPIC_ID
        elif not 0 <= key[1] < topic.partition_count:
            denied[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif may_read is not None and not may_read(topic.name):
            denied[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return denied


async def _share(
    call: Call,
    request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest,
    keys: Sequence[PartitionKey],
    asked: Acknowledged,
    hole_ends: Mapping[PartitionKey, int] = NO_HOLES,
    *,
    releases: bool = False,
    acquires: bool = False,
) -> _Shared:
    """Send one command for all partitions, and a second one for new partitions whose start is given as a time."""
    if not keys:
        return _Shared({})
    starts: dict[PartitionKey, int] = {}
    shared = await _ask(
        call, request, keys, asked, starts, hole_ends, releases=releases, acquires=acquires
    )
    answers = dict(zip(keys, shared.partitions, strict=True))
    for key, answer in answers.items():
        if answer.HasField("begins_at_ms"):
            starts[key] = await _first_offset(call, key, answer.begins_at_ms)
    if starts:
        again = await _ask(call, request, [*starts], {}, starts, acquires=True)
        for key, answer in zip(starts, again.partitions, strict=True):
            answers[key].MergeFrom(answer)
    if releases or asked:
        call.context.shares.wake(request.group_id or "")
    expiry = shared.next_expiry_ms if shared.HasField("next_expiry_ms") else None
    return _Shared(answers, shared.lock_duration_ms, expiry)


async def _ask(
    call: Call,
    request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest,
    keys: Iterable[PartitionKey],
    asked: Acknowledged,
    starts: Mapping[PartitionKey, int],
    hole_ends: Mapping[PartitionKey, int] = NO_HOLES,
    *,
    releases: bool = False,
    acquires: bool = False,
) -> RecordsShared:
    command = ShareRecords(
        group_id=request.group_id or "",
        member_id=request.member_id or "",
        releases=releases,
        partitions=[
            SharePartitionRequest(
                partition=TopicPartition(topic_id=key[0], partition=key[1]),
                acknowledged=[
                    AcknowledgedRange(
                        first_offset=batch.first_offset,
                        last_offset=batch.last_offset,
                        types=bytes(batch.acknowledge_types),
                    )
                    for batch in asked.get(key, ())
                ],
                acquires=acquires,
                start_offset=starts.get(key),
                hole_end=hole_ends.get(key, 0),
            )
            for key in keys
        ],
    )
    if isinstance(request, wire.ShareFetchRequest):
        command.max_records, command.max_bytes = request.max_records, request.max_bytes
    reply = await call.context.control.call(call.command(share_records=command))
    if reply.records_shared.has_dead_letters:
        call.context.shares.dead_letters.set()
    return reply.records_shared


async def _first_offset(call: Call, key: PartitionKey, begins_at_ms: int) -> int:
    """Return the first offset at or after a time, or the end of the partition if no record is that recent."""
    view = call.context.control.partition(*key)
    await view.ready()
    found = await first_at_or_after(call.context.fetch.cache, view, begins_at_ms, False)
    return view.high_watermark if found is None else found.offset


def _without(
    acquired: Iterable[AcquiredRun], holes: Iterable[tuple[int, int]]
) -> list[wire.AcquiredRecords]:
    left = []
    for run in acquired:
        first = run.first_offset
        for hole, hole_end in holes:
            if run.first_offset <= hole <= run.last_offset:
                if first < hole:
                    left.append(wire.AcquiredRecords(first, hole - 1, run.delivery_count))
                first = hole_end
        if first <= run.last_offset:
            left.append(wire.AcquiredRecords(first, run.last_offset, run.delivery_count))
    return left


def _acknowledge_error(answer: SharedPartition) -> tuple[int, str | None]:
    if answer.error_code:
        return answer.error_code, None
    return answer.acknowledge_error_code, answer.acknowledge_error_message or None


def _by_topic(answers: Mapping[PartitionKey, P]) -> dict[bytes, list[P]]:
    topics: dict[bytes, list[P]] = {}
    for (topic_id, _), answer in answers.items():
        topics.setdefault(topic_id, []).append(answer)
    return topics


APIS = (
    Api(
        request=wire.SHARE_FETCH_REQUEST,
        response=wire.SHARE_FETCH_RESPONSE,
        waits=True,
        handle=fetch,
        guard=guard,
        quota=CONSUMED,
        moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        unavailable=ErrorCode.KAFKA_STORAGE_ERROR,
        notes="share groups (KIP-932): acquires at most `max_records`, and nothing from an aborted transaction",
    ),
    Api(
        request=wire.SHARE_ACKNOWLEDGE_REQUEST,
        response=wire.SHARE_ACKNOWLEDGE_RESPONSE,
        handle=acknowledge,
        guard=guard,
        moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        unavailable=ErrorCode.KAFKA_STORAGE_ERROR,
        notes="share groups (KIP-932)",
    ),
)
