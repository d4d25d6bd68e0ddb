"""OffsetFetch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class OffsetFetchRequestTopic(NamedTuple):
    name: str = ""
    partition_indexes: Sequence[int] = ()


class OffsetFetchRequestTopics(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_indexes: Sequence[int] = ()


class OffsetFetchRequestGroup(NamedTuple):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: Sequence[OffsetFetchRequestTopics] | None = ()


class OffsetFetchRequest(NamedTuple):
    group_id: str = ""
    topics: Sequence[OffsetFetchRequestTopic] | None = ()
    groups: Sequence[OffsetFetchRequestGroup] = ()
    require_stable: bool = False


class OffsetFetchResponsePartition(NamedTuple):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()


class OffsetFetchResponsePartitions(NamedTuple):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopics(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[OffsetFetchResponsePartitions] = ()


class OffsetFetchResponseGroup(NamedTuple):
    group_id: str = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: int = 0


class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[OffsetFetchResponseTopic] = ()
    error_code: int = 0
    groups: Sequence[OffsetFetchResponseGroup] = ()


_OFFSET_FETCH_REQUEST_TOPIC: Final = Struct(
    OffsetFetchRequestTopic,
    name=Field(STRING, until=7),
    partition_indexes=Field(INT32, is_array=True, until=7),
)
_OFFSET_FETCH_REQUEST_TOPICS: Final = Struct(
    OffsetFetchRequestTopics,
    name=Field(STRING, since=8, until=9),
    topic_id=Field(UUID, since=10),
    partition_indexes=Field(INT32, is_array=True, since=8),
)
_OFFSET_FETCH_REQUEST_GROUP: Final = Struct(
    OffsetFetchRequestGroup,
    group_id=Field(STRING, since=8),
    member_id=Field(STRING, since=9, null_since=9),
    member_epoch=Field(INT32, since=9),
    topics=Field(_OFFSET_FETCH_REQUEST_TOPICS, is_array=True, since=8, null_since=8),
)
_OFFSET_FETCH_REQUEST: Final = Struct(
    OffsetFetchRequest,
    group_id=Field(STRING, until=7),
    topics=Field(_OFFSET_FETCH_REQUEST_TOPIC, is_array=True, until=7, null_since=2),
    groups=Field(_OFFSET_FETCH_REQUEST_GROUP, is_array=True, since=8),
    require_stable=Field(BOOL, since=7),
)
OFFSET_FETCH_REQUEST: Final[Message[OffsetFetchRequest]] = Message(
    _OFFSET_FETCH_REQUEST, api_key=9, versions=(0, 10), first_flexible=6
)
_OFFSET_FETCH_RESPONSE_PARTITION: Final = Struct(
    OffsetFetchResponsePartition,
    partition_index=Field(INT32, until=7),
    committed_offset=Field(INT64, until=7),
    committed_leader_epoch=Field(INT32, since=5, until=7),
    metadata=Field(STRING, until=7, null_since=0),
    error_code=Field(INT16, until=7),
)
_OFFSET_FETCH_RESPONSE_TOPIC: Final = Struct(
    OffsetFetchResponseTopic,
    name=Field(STRING, until=7),
    partitions=Field(_OFFSET_FETCH_RESPONSE_PARTITION, is_array=True, until=7),
)
_OFFSET_FETCH_RESPONSE_PARTITIONS: Final = Struct(
    OffsetFetchResponsePartitions,
    partition_index=Field(INT32, since=8),
    committed_offset=Field(INT64, since=8),
    committed_leader_epoch=Field(INT32, since=8),
    metadata=Field(STRING, since=8, null_since=8),
    error_code=Field(INT16, since=8),
)
_OFFSET_FETCH_RESPONSE_TOPICS: Final = Struct(
    OffsetFetchResponseTopics,
    name=Field(STRING, since=8, until=9),
    topic_id=Field(UUID, since=10),
    partitions=Field(_OFFSET_FETCH_RESPONSE_PARTITIONS, is_array=True, since=8),
)
_OFFSET_FETCH_RESPONSE_GROUP: Final = Struct(
    OffsetFetchResponseGroup,
    group_id=Field(STRING, since=8),
    topics=Field(_OFFSET_FETCH_RESPONSE_TOPICS, is_array=True, since=8),
    error_code=Field(INT16, since=8),
)
_OFFSET_FETCH_RESPONSE: Final = Struct(
    OffsetFetchResponse,
    throttle_time_ms=Field(INT32, since=3),
    topics=Field(_OFFSET_FETCH_RESPONSE_TOPIC, is_array=True, until=7),
    error_code=Field(INT16, since=2, until=7),
    groups=Field(_OFFSET_FETCH_RESPONSE_GROUP, is_array=True, since=8),
)
OFFSET_FETCH_RESPONSE: Final[Message[OffsetFetchResponse]] = Message(
    _OFFSET_FETCH_RESPONSE, api_key=9, versions=(0, 10), first_flexible=6
)
