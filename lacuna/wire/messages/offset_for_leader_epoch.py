"""OffsetForLeaderEpoch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, Int64, String, messages


class OffsetForLeaderPartition(NamedTuple):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(since=2)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(NamedTuple):
    topic: String = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


class OffsetForLeaderEpochRequest(NamedTuple):
    replica_id: Annotated[Int32, In(since=3)] = -2
    topics: Sequence[OffsetForLeaderTopic] = ()


class EpochEndOffset(NamedTuple):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, In(since=1)] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(NamedTuple):
    topic: String = ""
    partitions: Sequence[EpochEndOffset] = ()


class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()


OFFSET_FOR_LEADER_EPOCH_REQUEST, OFFSET_FOR_LEADER_EPOCH_RESPONSE = messages(
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    api_key=23,
    versions=(0, 4),
    first_flexible=4,
)
