"""DeleteRecords. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.layout import Int16, Int32, Int64, Message, String


class DeleteRecordsPartition(NamedTuple):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


class DeleteRecordsRequest(NamedTuple):
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(NamedTuple):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


class DeleteRecordsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()


DELETE_RECORDS_REQUEST: Final = Message(
    DeleteRecordsRequest, api_key=21, versions=(0, 2), first_flexible=2
)

DELETE_RECORDS_RESPONSE: Final = Message(
    DeleteRecordsResponse, api_key=21, versions=(0, 2), first_flexible=2
)
