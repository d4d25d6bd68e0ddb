"""DescribeProducers. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class TopicRequest(NamedTuple):
    name: str = ""
    partition_indexes: Sequence[int] = ()


class DescribeProducersRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()


class ProducerState(NamedTuple):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


class PartitionResponse(NamedTuple):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()


class TopicResponse(NamedTuple):
    name: str = ""
    partitions: Sequence[PartitionResponse] = ()


class DescribeProducersResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[TopicResponse] = ()


_TOPIC_REQUEST: Final = Struct(
    TopicRequest,
    name=Field(STRING),
    partition_indexes=Field(INT32, is_array=True),
)
_DESCRIBE_PRODUCERS_REQUEST: Final = Struct(
    DescribeProducersRequest,
    topics=Field(_TOPIC_REQUEST, is_array=True),
)
DESCRIBE_PRODUCERS_REQUEST: Final[Message[DescribeProducersRequest]] = Message(
    _DESCRIBE_PRODUCERS_REQUEST, api_key=61, versions=(0, 0), first_flexible=0
)
_PRODUCER_STATE: Final = Struct(
    ProducerState,
    producer_id=Field(INT64),
    producer_epoch=Field(INT32),
    last_sequence=Field(INT32),
    last_timestamp=Field(INT64),
    coordinator_epoch=Field(INT32),
    current_txn_start_offset=Field(INT64),
)
_PARTITION_RESPONSE: Final = Struct(
    PartitionResponse,
    partition_index=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    active_producers=Field(_PRODUCER_STATE, is_array=True),
)
_TOPIC_RESPONSE: Final = Struct(
    TopicResponse,
    name=Field(STRING),
    partitions=Field(_PARTITION_RESPONSE, is_array=True),
)
_DESCRIBE_PRODUCERS_RESPONSE: Final = Struct(
    DescribeProducersResponse,
    throttle_time_ms=Field(INT32),
    topics=Field(_TOPIC_RESPONSE, is_array=True),
)
DESCRIBE_PRODUCERS_RESPONSE: Final[Message[DescribeProducersResponse]] = Message(
    _DESCRIBE_PRODUCERS_RESPONSE, api_key=61, versions=(0, 0), first_flexible=0
)
