"""ListOffsets v1-v11.

Earliest (-2), latest (-1, by isolation level), the largest timestamp (-3, KIP-734), earliest local (-4,
KIP-405), and by time: the first record at or behind it that the isolation level shows. There is no
tiered storage: latest tiered (-5) and earliest pending upload (-6) are -1, as Kafka answers without it.
All of it after a confirming read (S7). There is one leader epoch, 0.
"""

from typing import TYPE_CHECKING, Any, Final

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.apis.transactions import find_partitions
from agent.fetch.codec import KAFKA_STORAGE_ERROR, READ_COMMITTED
from agent.fetch.loading import ExtentError, ExtentGoneError
from agent.fetch.lookup import TimedOffset, first_at_or_after, latest_by_time
from agent.fetch.service import log
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PartitionState, ReadPartitions

if TYPE_CHECKING:
    from agent.context import AgentContext
    from controlplane.v1.cluster_pb2 import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

UNSUPPORTED_VERSION: Final = 35
#: special timestamp -> the first version that knows it
_FIRST_VERSIONS: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NOTHING: Final = TimedOffset(-1, -1)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One confirming read for all, then each from what it said."""
    asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    found = await find_partitions(context, ((name, each.partition_index) for name, each in asked))
    states: list[PartitionState] = []
    if any(found):
        wanted = [where for where in found if where is not None]
        command = Command(read_partitions=ReadPartitions(partitions=wanted))
        states = list((await context.control.call(command)).partitions_read.partitions)
    read = iter(states)
    answers = []
    for where, (_, each) in zip(found, asked, strict=True):
        if where is None:
            answers.append((int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), _NOTHING))
        else:
            answers.append(await _answer_one(context, request, where, each, next(read)))
    return _response(request, answers)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    count = sum(len(topic.partitions) for topic in request.topics)
    return _response(request, [(error_code, _NOTHING)] * count)


async def _answer_one(
    context: "AgentContext",
    request: Any,
    where: "TopicPartition",
    asked: Any,
    state: PartitionState,
) -> tuple[int, TimedOffset]:
    """An error code and what was found."""
    timestamp = int(asked.timestamp)
    if state.error_code:
        return state.error_code, _NOTHING
    if getattr(asked, "current_leader_epoch", -1) > 0:
        return int(ErrorCode.UNKNOWN_LEADER_EPOCH), _NOTHING
    if timestamp < EARLIEST_PENDING_UPLOAD or version_of(request) < _FIRST_VERSIONS.get(
        timestamp, 0
    ):
        return UNSUPPORTED_VERSION, _NOTHING
    is_committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    if timestamp == LATEST:
        bound = state.last_stable_offset if is_committed else state.high_watermark
        return 0, TimedOffset(bound, -1)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return 0, TimedOffset(state.log_start_offset, -1)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return 0, _NOTHING
    try:
        return 0, await _by_time(context, where, timestamp, is_committed)
    except ExtentError as error:
        log.warning("ListOffsets failed: %s", error)
        return KAFKA_STORAGE_ERROR, _NOTHING


async def _by_time(
    context: "AgentContext", where: "TopicPartition", timestamp: int, is_committed: bool
) -> TimedOffset:
    """From the view, which has what the confirming read saw; once more where an object is gone."""
    view = context.control.partition(where.topic_id, where.partition)
    for is_last in (False, True):
        await view.ready()
        try:
            if timestamp == MAX_TIMESTAMP:
                found = await latest_by_time(context.fetch.cache, view, is_committed)
            else:
                found = await first_at_or_after(context.fetch.cache, view, timestamp, is_committed)
        except ExtentGoneError:
            if is_last:
                raise
            await context.fetch.confirm((view,))
        else:
            return found or _NOTHING
    raise AssertionError("the second attempt returns or raises")


def _response(request: Any, answers: list[tuple[int, TimedOffset]]) -> Any:
    rest = iter(answers)
    return build(
        request,
        "ListOffsetsResponse",
        topics=tuple(
            build(
                request,
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(
                    _partition(request, each.partition_index, *next(rest))
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(request: Any, index: int, error_code: int, found: TimedOffset) -> Any:
    return build(
        request,
        "ListOffsetsPartitionResponse",
        partition_index=index,
        error_code=error_code,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=0 if found.offset >= 0 else -1,
    )


API = Api(
    key=2,
    min_version=1,
    max_version=11,
    handle=handle,
    refuse=refuse,
    unavailable=KAFKA_STORAGE_ERROR,
    notes="after a confirming read",
)
