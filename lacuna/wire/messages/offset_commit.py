"""OffsetCommit. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class OffsetCommitRequestPartition(NamedTuple):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    commit_timestamp: int = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[OffsetCommitRequestPartition] = ()


class OffsetCommitRequest(NamedTuple):
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: Sequence[OffsetCommitRequestTopic] = ()


class OffsetCommitResponsePartition(NamedTuple):
    partition_index: int = 0
    error_code: int = 0


class OffsetCommitResponseTopic(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[OffsetCommitResponsePartition] = ()


class OffsetCommitResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()


_OFFSET_COMMIT_REQUEST_PARTITION: Final = Struct(
    OffsetCommitRequestPartition,
    partition_index=Field(INT32),
    committed_offset=Field(INT64),
    committed_leader_epoch=Field(INT32, since=6),
    commit_timestamp=Field(INT64, since=1, until=1),
    committed_metadata=Field(STRING, null_since=0),
)
_OFFSET_COMMIT_REQUEST_TOPIC: Final = Struct(
    OffsetCommitRequestTopic,
    name=Field(STRING, until=9),
    topic_id=Field(UUID, since=10),
    partitions=Field(_OFFSET_COMMIT_REQUEST_PARTITION, is_array=True),
)
_OFFSET_COMMIT_REQUEST: Final = Struct(
    OffsetCommitRequest,
    group_id=Field(STRING),
    generation_id_or_member_epoch=Field(INT32, since=1),
    member_id=Field(STRING, since=1),
    group_instance_id=Field(STRING, since=7, null_since=7),
    retention_time_ms=Field(INT64, since=2, until=4),
    topics=Field(_OFFSET_COMMIT_REQUEST_TOPIC, is_array=True),
)
OFFSET_COMMIT_REQUEST: Final[Message[OffsetCommitRequest]] = Message(
    _OFFSET_COMMIT_REQUEST, api_key=8, versions=(0, 10), first_flexible=8
)
_OFFSET_COMMIT_RESPONSE_PARTITION: Final = Struct(
    OffsetCommitResponsePartition,
    partition_index=Field(INT32),
    error_code=Field(INT16),
)
_OFFSET_COMMIT_RESPONSE_TOPIC: Final = Struct(
    OffsetCommitResponseTopic,
    name=Field(STRING, until=9),
    topic_id=Field(UUID, since=10),
    partitions=Field(_OFFSET_COMMIT_RESPONSE_PARTITION, is_array=True),
)
_OFFSET_COMMIT_RESPONSE: Final = Struct(
    OffsetCommitResponse,
    throttle_time_ms=Field(INT32, since=3),
    topics=Field(_OFFSET_COMMIT_RESPONSE_TOPIC, is_array=True),
)
OFFSET_COMMIT_RESPONSE: Final[Message[OffsetCommitResponse]] = Message(
    _OFFSET_COMMIT_RESPONSE, api_key=8, versions=(0, 10), first_flexible=8
)
