"""ListOffsets v0-v11.

The special timestamps request the earliest offset (-2), the latest offset for the isolation level (-1), the offset of
the largest timestamp (-3, KIP-734) or the earliest local offset (-4, KIP-405). For any other timestamp, the answer is
the offset of the first visible record with this timestamp or a later one. There is no tiered storage, so the answer for
latest tiered (-5) and earliest pending upload (-6, KIP-1023) is -1, as in Kafka without tiered storage. Every answer
follows a confirming read (S7). The only leader epoch is 0.

A timestamp of -10^12 or less is an extension of Kafka's protocol (adr/0042). It is the negative of a past time in
milliseconds since 1970, and requests the offset at which the partition ended for read_committed consumers at that time.
The answer's timestamp is the time for which its offset is valid, which is at or before the requested time. If the
answer is OFFSET_OUT_OF_RANGE, its timestamp is the earliest known time. Partitions requested with the same timestamp
get the same timestamp in the answer.

A timestamp of -2^62 - p requests the lag of a read_committed consumer at position p (adr/0041). The answer's offset is
the number of records left to read, and its timestamp is the largest in the first extent that contains any of them, or
-1.

Lookups by time that must read the store run concurrently, up to the number of reads that the worker allows. If a
request names a partition twice, the answer lists it once, with INVALID_REQUEST.

Temporary errors are reported as LEADER_NOT_AVAILABLE, because librdkafka retries on this error. On KAFKA_STORAGE_ERROR
or NOT_LEADER_OR_FOLLOWER, librdkafka only refreshes its metadata and fails. Java, franz-go and sarama retry on all
three.

v0, sent by clients before 0.10.1, requests several offsets before a time. Kafka answers with the first offsets of the
segment files last written at or before that time, the latest first and no more than `max_num_offsets`. The end of the
log counts as one more file, written now. Lacuna uses extents instead of files and their largest timestamps instead of
modification times. As in Kafka, a consumer that looks up a time therefore begins somewhat before that time. For -1
(latest), the list begins with the high watermark. For -2 (earliest), it contains only log_start_offset. v0 and v1 are
always read_uncommitted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.fetch import internal
from lacuna.agent.fetch.answers import READ_COMMITTED
from lacuna.agent.fetch.loading import ExtentError, ExtentGoneError
from lacuna.agent.fetch.lookup import TimedOffset, first_at_or_after, latest_by_time
from lacuna.agent.fetch.service import log
from lacuna.agent.guards.guard import on_each
from lacuna.agent.internal import is_internal
from lacuna.agent.partitions import find_partitions, read_partitions
from lacuna.agent.side_by_side import side_by_side
from lacuna.controlplane.client import AsOf, PartitionView, read_as_of
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.behind import LAG, behind
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.wire.messages.fetch import (
    LIST_OFFSETS_REQUEST,
    LIST_OFFSETS_RESPONSE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

#: Timestamps up to this one are negated past times, the earliest of which is 2001-09-09. Kafka's special timestamps are
#: larger.
AS_OF: Final = -(10**12)

#: special timestamp -> the first version that supports it
_FIRST_VERSIONS: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
#: The maximum number of offsets in an answer to v0. It keeps a request for all offsets from listing every extent of a
#: large log.
MAX_OFFSETS: Final = 100


async def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer for all partitions from a single confirming read."""
    asked, repeated = _asked(call, request)
    found = await find_partitions(
        call.context, ((name, each.partition_index) for name, each in asked)
    )
    states = await read_partitions(call.context, found)
    past = await _past(call.context, found, asked)
    is_committed = request.isolation_level == READ_COMMITTED
    answers = []
    lookups = []
    for where, state, (name, each) in zip(found, states, asked, strict=True):
        error_code = _error_of(call, each, state)
        if (name, each.partition_index) in repeated:
            error_code = ErrorCode.INVALID_REQUEST
        if where is None or error_code:
            answers.append(_failed(each, error_code))
        elif LAG < each.timestamp <= AS_OF:
            answers.append(_as_of(each, where, past[each.timestamp]))
        elif (at_once := _at_once(call, each, state, is_committed)) is not None:
            answers.append(at_once)
        else:
            lookups.append((len(answers), partial(_look_up, call, each, where, is_committed)))
            answers.append(_failed(each, ErrorCode.LEADER_NOT_AVAILABLE))
    works = [work for _, work in lookups]
    looked_up = await side_by_side(works, call.context.fetch.reads_at_once)
    for (index, _), answer in zip(lookups, looked_up, strict=True):
        answers[index] = answer
    return _response(zip((name for name, _ in asked), answers, strict=True))


def _asked(
    call: Call, request: ListOffsetsRequest
) -> tuple[list[tuple[str, ListOffsetsPartition]], set[tuple[str, int]]]:
    """Return the requested timestamps with their topic names, and the partitions that the request names more than once.

    A repeated partition has one entry, except in v0, where a request may ask for several offsets of a partition.
    """
    asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    counts = Counter((name, each.partition_index) for name, each in asked)
    if call.version == 0 or len(counts) == len(asked):
        return asked, set()
    once = {(name, each.partition_index): (name, each) for name, each in asked}
    return [*once.values()], {key for key, count in counts.items() if count > 1}


def _error_of(call: Call, asked: ListOffsetsPartition, state: PartitionState) -> int:
    first_version = _FIRST_VERSIONS.get(asked.timestamp, 0)
    is_unknown = AS_OF < asked.timestamp < EARLIEST_PENDING_UPLOAD or call.version < first_version
    is_unknown |= asked.timestamp <= AS_OF and call.version == 0  # answers to v0 have no timestamps
    if is_unknown and call.version == 0:  # v0 returns this even for partitions that do not exist
        return ErrorCode.UNSUPPORTED_VERSION
    if state.error_code:
        return state.error_code
    if asked.current_leader_epoch > 0:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.UNSUPPORTED_VERSION if is_unknown else 0


async def _past(
    context: AgentContext,
    found: Sequence[TopicPartition | None],
    asked: Iterable[tuple[str, ListOffsetsPartition]],
) -> dict[int, AsOf]:
    """Look up each requested past time once, and return the results by timestamp."""
    wanted: dict[int, list[PartitionKey]] = {}
    for where, (_, each) in zip(found, asked, strict=True):
        if where is not None and LAG < each.timestamp <= AS_OF:
            wanted.setdefault(each.timestamp, []).append(key_of(where))
    return {each: await read_as_of(context.control, wanted[each], -each) for each in wanted}


def _as_of(
    asked: ListOffsetsPartition, where: TopicPartition, past: AsOf
) -> ListOffsetsPartitionResponse:
    if not past.is_known:
        failed = _failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        return failed._replace(timestamp=past.known_from_ms)
    answer = past.partitions[key_of(where)]
    if answer.error_code:
        return _failed(asked, answer.error_code)
    return _found(asked, TimedOffset(answer.end_offset, past.as_of_ms))


def _at_once(
    call: Call, asked: ListOffsetsPartition, state: PartitionState, is_committed: bool
) -> ListOffsetsPartitionResponse | None:
    """Return the answer if the confirming read provides it, or None if the extents must be examined."""
    if call.version == 0:
        return None
    if asked.timestamp == LATEST:
        bound = state.last_stable_offset if is_committed else state.high_watermark
        return _found(asked, TimedOffset(bound, -1))
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _found(asked, TimedOffset(state.log_start_offset, -1))
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _found(asked, None)
    return None


async def _look_up(
    call: Call, asked: ListOffsetsPartition, where: TopicPartition, is_committed: bool
) -> ListOffsetsPartitionResponse:
    context = call.context
    view = context.control.partition(where.topic_id, where.partition)
    if call.version == 0:
        return await _before(context, asked, view)
    if asked.timestamp <= LAG:
        await view.ready()
        return _found(asked, _left(view, LAG - asked.timestamp))
    try:
        return _found(asked, await _by_time(context, view, asked.timestamp, is_committed))
    except ExtentError as error:
        log.warning("ListOffsets failed: %s", error)
        return _failed(asked, ErrorCode.LEADER_NOT_AVAILABLE)


def _left(view: PartitionView, position: int) -> TimedOffset:
    """Count the records (in an internal topic, the offsets) that a read_committed consumer has yet to read."""
    if is_internal(view.topic_id):
        return TimedOffset(max(view.last_stable_offset - position, 0), -1)
    return TimedOffset(*behind(view, position))


async def _by_time(
    context: AgentContext, view: PartitionView, timestamp: int, is_committed: bool
) -> TimedOffset | None:
    """Look up a time in the view, after the confirming read. If an object is missing, retry once."""
    for is_last in (False, True):
        await view.ready()
        try:
            if is_internal(view.topic_id) and timestamp == MAX_TIMESTAMP:
                return await internal.latest_by_time(context.control, view)
            if is_internal(view.topic_id):
                return await internal.first_at_or_after(context.control, view, timestamp)
            if timestamp == MAX_TIMESTAMP:
                return await latest_by_time(context.fetch.cache, view, is_committed)
            return await first_at_or_after(context.fetch.cache, view, timestamp, is_committed)
        except ExtentGoneError:
            if is_last:
                raise
            await context.fetch.confirm((view,))
    raise AssertionError("the second attempt returns or raises")


async def _before(
    context: AgentContext, asked: ListOffsetsPartition, view: PartitionView
) -> ListOffsetsPartitionResponse:
    await view.ready()
    offsets = offsets_before(view, asked.timestamp, asked.max_num_offsets, context.clock.now_ms())
    return ListOffsetsPartitionResponse(asked.partition_index, old_style_offsets=offsets)


def offsets_before(
    view: PartitionView, timestamp: int, max_num_offsets: int, now_ms: int
) -> tuple[int, ...]:
    """Return v0's answer for `timestamp` (ms): the first offset of each extent up to that time, the latest first.

    Returns at most `max_num_offsets` offsets, and at most MAX_OFFSETS unless `timestamp` is EARLIEST.
    """
    start = view.log_start_offset
    if timestamp == EARLIEST:
        return (start,)[: max(max_num_offsets, 0)]
    limit = min(max_num_offsets, MAX_OFFSETS)
    extents = view.extents
    offsets: list[int] = []
    if timestamp == LATEST or timestamp >= now_ms:
        offsets.append(view.high_watermark)
    is_found = bool(offsets)
    for index in range(len(extents) - 1, -1, -1):
        if len(offsets) >= limit:
            break
        is_found = is_found or extents.max_timestamps[index] <= timestamp
        if is_found:
            offsets.append(max(extents.base_offsets[index], start))
    return tuple(offsets[: max(limit, 0)])


def _failed(asked: ListOffsetsPartition, error_code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(asked.partition_index, error_code)


def _found(asked: ListOffsetsPartition, found: TimedOffset | None) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(asked.partition_index)
    if found is None:
        return answer
    return answer._replace(timestamp=found.timestamp, offset=found.offset, leader_epoch=0)


def _response(answers: Iterable[tuple[str, ListOffsetsPartitionResponse]]) -> ListOffsetsResponse:
    topics: dict[str, list[ListOffsetsPartitionResponse]] = {}
    for name, answer in answers:
        topics.setdefault(name, []).append(answer)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(*each) for each in topics.items()])


API = Api(
    request=LIST_OFFSETS_REQUEST,
    response=LIST_OFFSETS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _response(
        (topic.name, _failed(each, code)) for topic in request.topics for each in topic.partitions
    ),
    guard=on_each("topics", "topics", Operation.DESCRIBE, ResourceType.TOPIC, "name"),
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    unavailable=ErrorCode.LEADER_NOT_AVAILABLE,
    notes=f"calls the control plane first; v0: the bounds of extents, at most {MAX_OFFSETS} offsets per partition; "
    "from v1, also end offsets at past times ([ADR 42](adr/0042-time-travel-is-a-history-of-last-stable-offsets.md)) "
    "and lags ([ADR 41](adr/0041-lag-is-what-a-reader-will-get.md))",
)
