"""ListOffsets v0: several offsets before a time, of clients before 0.10.1.

Kafka answers with the first offsets of segment files, of those that were last written at or before the time, the
latest first, at most `max_num_offsets`; the log's end counts as one more, written now. Here extents stand for
the files and the newest of their timestamps for the time of writing: a consumer that looks for a time begins somewhat
before it, as it did. -1 (latest) begins with the high watermark, -2 (earliest) is log_start_offset alone. After a
confirming read (S7); read_uncommitted, since these versions know nothing else.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from agent.apis.list_offsets import EARLIEST, LATEST, UNSUPPORTED_VERSION
from agent.apis.registry import Api, Peer
from agent.apis.tables import (
    ERROR_CODE,
    INT32,
    INT64,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)
from agent.apis.transactions import find_partitions
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions

if TYPE_CHECKING:
    from agent.context import AgentContext
    from controlplane.client import PartitionView

# An answer to "all of them" need not name every extent of a large log.
MAX_OFFSETS: Final = 100
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6


class AskedPartition(NamedTuple):
    """`timestamp` in ms, or -1 or -2."""

    partition: int
    timestamp: int
    max_num_offsets: int


class AskedTopic(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: tuple[AskedPartition, ...]


class ListOffsetsRequest(NamedTuple):
    """v0."""

    topics: tuple[AskedTopic, ...]


class PartitionOffsets(NamedTuple):
    """Offsets, the latest first."""

    partition: int
    error_code: int
    offsets: tuple[int, ...] = ()


class TopicOffsets(NamedTuple):
    """Answers of a topic."""

    name: str
    partitions: tuple[PartitionOffsets, ...]


class ListOffsetsResponse(NamedTuple):
    """v0."""

    topics: tuple[TopicOffsets, ...]


async def handle(
    context: "AgentContext",
    request: ListOffsetsRequest,
    peer: Peer,  # noqa: ARG001 - every handler has it
) -> ListOffsetsResponse:
    """One confirming read for all; then each from its view, which has what that saw."""
    asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    found = await find_partitions(context, ((name, each.partition) for name, each in asked))
    wanted = [where for where in found if where is not None]
    error_codes: Iterator[int] = iter(())
    if wanted:
        command = Command(read_partitions=ReadPartitions(partitions=wanted))
        read = (await context.control.call(command)).partitions_read.partitions
        error_codes = iter([state.error_code for state in read])
    answers = []
    for where, (_, each) in zip(found, asked, strict=True):
        error_code = UNKNOWN_TOPIC_OR_PARTITION if where is None else next(error_codes)
        offsets: tuple[int, ...] = ()
        if each.timestamp < EARLIEST:
            error_code = UNSUPPORTED_VERSION
        elif where is not None and not error_code:
            view = context.control.partition(where.topic_id, where.partition)
            await view.ready()
            now_ms = context.clock.now_ms()
            offsets = offsets_before(view, each.timestamp, each.max_num_offsets, now_ms)
        answers.append(PartitionOffsets(each.partition, error_code, offsets))
    return _response(request, answers)


def refuse(request: ListOffsetsRequest, error_code: int) -> ListOffsetsResponse:
    """The error for every partition."""
    return _response(
        request,
        [
            PartitionOffsets(each.partition, error_code)
            for topic in request.topics
            for each in topic.partitions
        ],
    )


def offsets_before(
    view: "PartitionView", timestamp: int, max_num_offsets: int, now_ms: int
) -> tuple[int, ...]:
    """First offsets of the extents that were written at or before `timestamp` (ms), the latest first."""
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


def _response(request: ListOffsetsRequest, answers: list[PartitionOffsets]) -> ListOffsetsResponse:
    rest = iter(answers)
    return ListOffsetsResponse(
        tuple(
            TopicOffsets(topic.name, tuple(next(rest) for _ in topic.partitions))
            for topic in request.topics
        )
    )


_PARTITION: Final = Entity(
    AskedPartition, ("partition", INT32), ("timestamp", INT64), ("max_num_offsets", INT32)
)
_TOPIC: Final = Entity(AskedTopic, ("name", STRING), ("partitions", Array(_PARTITION)))
_REQUEST: Final = Entity(ListOffsetsRequest, (None, INT32), ("topics", Array(_TOPIC)))
_PARTITION_ANSWER: Final = Entity(
    PartitionOffsets, ("partition", INT32), ("error_code", ERROR_CODE), ("offsets", Array(INT64))
)
_TOPIC_ANSWER: Final = Entity(
    TopicOffsets, ("name", STRING), ("partitions", Array(_PARTITION_ANSWER))
)
_RESPONSE: Final = Entity(ListOffsetsResponse, ("topics", Array(_TOPIC_ANSWER)))

API = Api(
    key=2,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    decode=reader({0: _REQUEST}),
    encode=writer({0: _RESPONSE}),
    notes=f"v0: extents stand for segment files; at most {MAX_OFFSETS} offsets a partition",
    unavailable=NOT_LEADER_OR_FOLLOWER,
)
