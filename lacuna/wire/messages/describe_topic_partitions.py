"""DescribeTopicPartitions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, Int16, Int32, String, Uuid, messages


class TopicRequest(NamedTuple):
    name: String = ""


class Cursor(NamedTuple):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    eligible_leader_replicas: Sequence[Int32] | None = None
    last_known_elr: Sequence[Int32] | None = None
    offline_replicas: Sequence[Int32] = ()


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None


DESCRIBE_TOPIC_PARTITIONS_REQUEST, DESCRIBE_TOPIC_PARTITIONS_RESPONSE = messages(
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    api_key=75,
    versions=(0, 0),
    first_flexible=0,
)
