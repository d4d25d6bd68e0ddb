"""OffsetDelete. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: int = 0


class OffsetDeleteRequestTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


class OffsetDeleteRequest(NamedTuple):
    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


class OffsetDeleteResponsePartition(NamedTuple):
    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


class OffsetDeleteResponse(NamedTuple):
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()


_OFFSET_DELETE_REQUEST_PARTITION: Final = Struct(
    OffsetDeleteRequestPartition,
    partition_index=Field(INT32),
)
_OFFSET_DELETE_REQUEST_TOPIC: Final = Struct(
    OffsetDeleteRequestTopic,
    name=Field(STRING),
    partitions=Field(_OFFSET_DELETE_REQUEST_PARTITION, is_array=True),
)
_OFFSET_DELETE_REQUEST: Final = Struct(
    OffsetDeleteRequest,
    group_id=Field(STRING),
    topics=Field(_OFFSET_DELETE_REQUEST_TOPIC, is_array=True),
)
OFFSET_DELETE_REQUEST: Final[Message[OffsetDeleteRequest]] = Message(
    _OFFSET_DELETE_REQUEST, api_key=47, versions=(0, 0), first_flexible=None
)
_OFFSET_DELETE_RESPONSE_PARTITION: Final = Struct(
    OffsetDeleteResponsePartition,
    partition_index=Field(INT32),
    error_code=Field(INT16),
)
_OFFSET_DELETE_RESPONSE_TOPIC: Final = Struct(
    OffsetDeleteResponseTopic,
    name=Field(STRING),
    partitions=Field(_OFFSET_DELETE_RESPONSE_PARTITION, is_array=True),
)
_OFFSET_DELETE_RESPONSE: Final = Struct(
    OffsetDeleteResponse,
    error_code=Field(INT16),
    throttle_time_ms=Field(INT32),
    topics=Field(_OFFSET_DELETE_RESPONSE_TOPIC, is_array=True),
)
OFFSET_DELETE_RESPONSE: Final[Message[OffsetDeleteResponse]] = Message(
    _OFFSET_DELETE_RESPONSE, api_key=47, versions=(0, 0), first_flexible=None
)
