"""OffsetForLeaderEpoch v2-v4 (KIP-101, KIP-320).

There is one leader epoch, 0, and it ends at the high watermark, so a consumer never finds that its log
was truncated. Epochs that never were are (-1, -1), as in Kafka; a current_leader_epoch above 0 is
UNKNOWN_LEADER_EPOCH. Answered after a confirming read (S7).
"""

from typing import TYPE_CHECKING, Any, Final

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_partitions
from agent.fetch.codec import KAFKA_STORAGE_ERROR
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PartitionState, ReadPartitions

if TYPE_CHECKING:
    from agent.context import AgentContext

_LEADER_EPOCH: Final = 0
_UNDEFINED: Final = -1


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One confirming read for all."""
    asked = [(topic.topic, each) for topic in request.topics for each in topic.partitions]
    found = await find_partitions(context, ((name, each.partition) for name, each in asked))
    states: list[PartitionState] = []
    if any(found):
        wanted = [where for where in found if where is not None]
        command = Command(read_partitions=ReadPartitions(partitions=wanted))
        states = list((await context.control.call(command)).partitions_read.partitions)
    read = iter(states)
    unknown = PartitionState(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _response(request, [unknown if where is None else next(read) for where in found])


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    count = sum(len(topic.partitions) for topic in request.topics)
    return _response(request, [PartitionState(error_code=error_code)] * count)


def _response(request: Any, states: list[PartitionState]) -> Any:
    rest = iter(states)
    return build(
        request,
        "OffsetForLeaderEpochResponse",
        topics=tuple(
            build(
                request,
                "OffsetForLeaderTopicResult",
                topic=topic.topic,
                partitions=tuple(
                    _partition(request, each, next(rest)) for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(request: Any, asked: Any, state: PartitionState) -> Any:
    error_code = state.error_code
    if not error_code and asked.current_leader_epoch > _LEADER_EPOCH:
        error_code = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
    is_known = not error_code and asked.leader_epoch == _LEADER_EPOCH
    return build(
        request,
        "EpochEndOffset",
        error_code=error_code,
        partition=asked.partition,
        leader_epoch=_LEADER_EPOCH if is_known else _UNDEFINED,
        end_offset=state.high_watermark if is_known else _UNDEFINED,
    )


API = Api(
    key=23,
    min_version=2,
    max_version=4,
    handle=handle,
    refuse=refuse,
    unavailable=KAFKA_STORAGE_ERROR,
    notes="one leader epoch, 0",
)
