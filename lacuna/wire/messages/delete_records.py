"""DeleteRecords. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class DeleteRecordsPartition(NamedTuple):
    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


class DeleteRecordsRequest(NamedTuple):
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: int = 0


class DeleteRecordsPartitionResult(NamedTuple):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(NamedTuple):
    name: str = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


class DeleteRecordsResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()


_DELETE_RECORDS_PARTITION: Final = Struct(
    DeleteRecordsPartition,
    partition_index=Field(INT32),
    offset=Field(INT64),
)
_DELETE_RECORDS_TOPIC: Final = Struct(
    DeleteRecordsTopic,
    name=Field(STRING),
    partitions=Field(_DELETE_RECORDS_PARTITION, is_array=True),
)
_DELETE_RECORDS_REQUEST: Final = Struct(
    DeleteRecordsRequest,
    topics=Field(_DELETE_RECORDS_TOPIC, is_array=True),
    timeout_ms=Field(INT32),
)
DELETE_RECORDS_REQUEST: Final[Message[DeleteRecordsRequest]] = Message(
    _DELETE_RECORDS_REQUEST, api_key=21, versions=(0, 2), first_flexible=2
)
_DELETE_RECORDS_PARTITION_RESULT: Final = Struct(
    DeleteRecordsPartitionResult,
    partition_index=Field(INT32),
    low_watermark=Field(INT64),
    error_code=Field(INT16),
)
_DELETE_RECORDS_TOPIC_RESULT: Final = Struct(
    DeleteRecordsTopicResult,
    name=Field(STRING),
    partitions=Field(_DELETE_RECORDS_PARTITION_RESULT, is_array=True),
)
_DELETE_RECORDS_RESPONSE: Final = Struct(
    DeleteRecordsResponse,
    throttle_time_ms=Field(INT32),
    topics=Field(_DELETE_RECORDS_TOPIC_RESULT, is_array=True),
)
DELETE_RECORDS_RESPONSE: Final[Message[DeleteRecordsResponse]] = Message(
    _DELETE_RECORDS_RESPONSE, api_key=21, versions=(0, 2), first_flexible=2
)
