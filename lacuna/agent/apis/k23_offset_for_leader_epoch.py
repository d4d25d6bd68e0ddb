"""OffsetForLeaderEpoch: the only leader epoch is 0, which ends at the high watermark, so a consumer never detects a
truncated log.

An epoch that does not exist returns (-1, -1), as in Kafka. A current_leader_epoch above 0 (v2+) returns
UNKNOWN_LEADER_EPOCH. Every answer follows a confirming read (S7).
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Final

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.records import offset_for_leader_epoch as guard
from lacuna.agent.partitions import find_partitions, read_partitions
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.wire.messages import fetch as wire

_LEADER_EPOCH: Final = 0


async def handle(
    call: Call, request: wire.OffsetForLeaderEpochRequest
) -> wire.OffsetForLeaderEpochResponse:
    asked = [(topic.topic, each.partition) for topic in request.topics for each in topic.partitions]
    found = await find_partitions(call.context, asked)
    return _response(request, await read_partitions(call.context, found))


def _response(
    request: wire.OffsetForLeaderEpochRequest, states: Iterable[PartitionState]
) -> wire.OffsetForLeaderEpochResponse:
    rest = iter(states)
    return wire.OffsetForLeaderEpochResponse(
        topics=[
            wire.OffsetForLeaderTopicResult(
                topic.topic, [_partition(each, next(rest)) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _partition(asked: wire.OffsetForLeaderPartition, state: PartitionState) -> wire.EpochEndOffset:
    error_code = state.error_code
    if not error_code and asked.current_leader_epoch > _LEADER_EPOCH:
        error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    if error_code or asked.leader_epoch != _LEADER_EPOCH:
        return wire.EpochEndOffset(error_code, asked.partition)
    return wire.EpochEndOffset(0, asked.partition, _LEADER_EPOCH, state.high_watermark)


API = Api(
    request=wire.OFFSET_FOR_LEADER_EPOCH_REQUEST,
    response=wire.OFFSET_FOR_LEADER_EPOCH_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _response(
        request, repeat(PartitionState(error_code=code))
    ),
    guard=guard,
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    unavailable=ErrorCode.KAFKA_STORAGE_ERROR,
    notes="the only leader epoch is 0",
)
