"""DescribeProducers. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, Int64, String, messages


class TopicRequest(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class DescribeProducersRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()


class ProducerState(NamedTuple):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Sequence[ProducerState] = ()


class TopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[PartitionResponse] = ()


class DescribeProducersResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[TopicResponse] = ()


DESCRIBE_PRODUCERS_REQUEST, DESCRIBE_PRODUCERS_RESPONSE = messages(
    DescribeProducersRequest,
    DescribeProducersResponse,
    api_key=61,
    versions=(0, 0),
    first_flexible=0,
)
