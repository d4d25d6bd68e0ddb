"""DeleteRecords. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, Int64, String, messages


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


DELETE_RECORDS_REQUEST, DELETE_RECORDS_RESPONSE = messages(
    DeleteRecordsRequest, DeleteRecordsResponse, api_key=21, versions=(0, 2), first_flexible=2
)
