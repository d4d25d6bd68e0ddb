"""ListOffsets. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class ListOffsetsPartition(NamedTuple):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
    max_num_offsets: int = 1


class ListOffsetsTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()


class ListOffsetsRequest(NamedTuple):
    replica_id: int = 0
    isolation_level: int = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int = 0


class ListOffsetsPartitionResponse(NamedTuple):
    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: Sequence[int] = ()
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsTopicResponse(NamedTuple):
    name: str = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()


_LIST_OFFSETS_PARTITION: Final = Struct(
    ListOffsetsPartition,
    partition_index=Field(INT32),
    current_leader_epoch=Field(INT32, since=4),
    timestamp=Field(INT64),
    max_num_offsets=Field(INT32, until=0),
)
_LIST_OFFSETS_TOPIC: Final = Struct(
    ListOffsetsTopic,
    name=Field(STRING),
    partitions=Field(_LIST_OFFSETS_PARTITION, is_array=True),
)
_LIST_OFFSETS_REQUEST: Final = Struct(
    ListOffsetsRequest,
    replica_id=Field(INT32),
    isolation_level=Field(INT8, since=2),
    topics=Field(_LIST_OFFSETS_TOPIC, is_array=True),
    timeout_ms=Field(INT32, since=10),
)
LIST_OFFSETS_REQUEST: Final[Message[ListOffsetsRequest]] = Message(
    _LIST_OFFSETS_REQUEST, api_key=2, versions=(0, 10), first_flexible=6
)
_LIST_OFFSETS_PARTITION_RESPONSE: Final = Struct(
    ListOffsetsPartitionResponse,
    partition_index=Field(INT32),
    error_code=Field(INT16),
    old_style_offsets=Field(INT64, is_array=True, until=0),
    timestamp=Field(INT64, since=1),
    offset=Field(INT64, since=1),
    leader_epoch=Field(INT32, since=4),
)
_LIST_OFFSETS_TOPIC_RESPONSE: Final = Struct(
    ListOffsetsTopicResponse,
    name=Field(STRING),
    partitions=Field(_LIST_OFFSETS_PARTITION_RESPONSE, is_array=True),
)
_LIST_OFFSETS_RESPONSE: Final = Struct(
    ListOffsetsResponse,
    throttle_time_ms=Field(INT32, since=2),
    topics=Field(_LIST_OFFSETS_TOPIC_RESPONSE, is_array=True),
)
LIST_OFFSETS_RESPONSE: Final[Message[ListOffsetsResponse]] = Message(
    _LIST_OFFSETS_RESPONSE, api_key=2, versions=(0, 10), first_flexible=6
)
