"""ConsumerGroupHeartbeat. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, String, Uuid, messages


class TopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ConsumerGroupHeartbeatRequest(NamedTuple):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Sequence[String] | None = None
    subscribed_topic_regex: Annotated[String | None, In(since=1)] = None
    server_assignor: String | None = None
    topic_partitions: Sequence[TopicPartitions] | None = None


class Assignment(NamedTuple):
    topic_partitions: Sequence[TopicPartitions] = ()


class ConsumerGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


CONSUMER_GROUP_HEARTBEAT_REQUEST, CONSUMER_GROUP_HEARTBEAT_RESPONSE = messages(
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    api_key=68,
    versions=(0, 1),
    first_flexible=0,
)
