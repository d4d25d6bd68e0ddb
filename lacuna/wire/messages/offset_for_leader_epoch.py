"""OffsetForLeaderEpoch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class OffsetForLeaderPartition(NamedTuple):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


class OffsetForLeaderTopic(NamedTuple):
    topic: str = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


class OffsetForLeaderEpochRequest(NamedTuple):
    replica_id: int = -2
    topics: Sequence[OffsetForLeaderTopic] = ()


class EpochEndOffset(NamedTuple):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderTopicResult(NamedTuple):
    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()


class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()


_OFFSET_FOR_LEADER_PARTITION: Final = Struct(
    OffsetForLeaderPartition,
    partition=Field(INT32),
    current_leader_epoch=Field(INT32, since=2),
    leader_epoch=Field(INT32),
)
_OFFSET_FOR_LEADER_TOPIC: Final = Struct(
    OffsetForLeaderTopic,
    topic=Field(STRING),
    partitions=Field(_OFFSET_FOR_LEADER_PARTITION, is_array=True),
)
_OFFSET_FOR_LEADER_EPOCH_REQUEST: Final = Struct(
    OffsetForLeaderEpochRequest,
    replica_id=Field(INT32, since=3),
    topics=Field(_OFFSET_FOR_LEADER_TOPIC, is_array=True),
)
OFFSET_FOR_LEADER_EPOCH_REQUEST: Final[Message[OffsetForLeaderEpochRequest]] = Message(
    _OFFSET_FOR_LEADER_EPOCH_REQUEST, api_key=23, versions=(0, 4), first_flexible=4
)
_EPOCH_END_OFFSET: Final = Struct(
    EpochEndOffset,
    error_code=Field(INT16),
    partition=Field(INT32),
    leader_epoch=Field(INT32, since=1),
    end_offset=Field(INT64),
)
_OFFSET_FOR_LEADER_TOPIC_RESULT: Final = Struct(
    OffsetForLeaderTopicResult,
    topic=Field(STRING),
    partitions=Field(_EPOCH_END_OFFSET, is_array=True),
)
_OFFSET_FOR_LEADER_EPOCH_RESPONSE: Final = Struct(
    OffsetForLeaderEpochResponse,
    throttle_time_ms=Field(INT32, since=2),
    topics=Field(_OFFSET_FOR_LEADER_TOPIC_RESULT, is_array=True),
)
OFFSET_FOR_LEADER_EPOCH_RESPONSE: Final[Message[OffsetForLeaderEpochResponse]] = Message(
    _OFFSET_FOR_LEADER_EPOCH_RESPONSE, api_key=23, versions=(0, 4), first_flexible=4
)
