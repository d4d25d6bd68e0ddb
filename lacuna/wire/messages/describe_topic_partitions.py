"""DescribeTopicPartitions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class TopicRequest(NamedTuple):
    name: str = ""


class Cursor(NamedTuple):
    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    offline_replicas: Sequence[int] = ()


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


class DescribeTopicPartitionsResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None


_TOPIC_REQUEST: Final = Struct(
    TopicRequest,
    name=Field(STRING),
)
_CURSOR: Final = Struct(
    Cursor,
    topic_name=Field(STRING),
    partition_index=Field(INT32),
)
_DESCRIBE_TOPIC_PARTITIONS_REQUEST: Final = Struct(
    DescribeTopicPartitionsRequest,
    topics=Field(_TOPIC_REQUEST, is_array=True),
    response_partition_limit=Field(INT32),
    cursor=Field(_CURSOR, null_since=0),
)
DESCRIBE_TOPIC_PARTITIONS_REQUEST: Final[Message[DescribeTopicPartitionsRequest]] = Message(
    _DESCRIBE_TOPIC_PARTITIONS_REQUEST, api_key=75, versions=(0, 0), first_flexible=0
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION: Final = Struct(
    DescribeTopicPartitionsResponsePartition,
    error_code=Field(INT16),
    partition_index=Field(INT32),
    leader_id=Field(INT32),
    leader_epoch=Field(INT32),
    replica_nodes=Field(INT32, is_array=True),
    isr_nodes=Field(INT32, is_array=True),
    eligible_leader_replicas=Field(INT32, is_array=True, null_since=0),
    last_known_elr=Field(INT32, is_array=True, null_since=0),
    offline_replicas=Field(INT32, is_array=True),
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC: Final = Struct(
    DescribeTopicPartitionsResponseTopic,
    error_code=Field(INT16),
    name=Field(STRING, null_since=0),
    topic_id=Field(UUID),
    is_internal=Field(BOOL),
    partitions=Field(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION, is_array=True),
    topic_authorized_operations=Field(INT32),
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE: Final = Struct(
    DescribeTopicPartitionsResponse,
    throttle_time_ms=Field(INT32),
    topics=Field(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC, is_array=True),
    next_cursor=Field(_CURSOR, null_since=0),
)
DESCRIBE_TOPIC_PARTITIONS_RESPONSE: Final[Message[DescribeTopicPartitionsResponse]] = Message(
    _DESCRIBE_TOPIC_PARTITIONS_RESPONSE, api_key=75, versions=(0, 0), first_flexible=0
)
