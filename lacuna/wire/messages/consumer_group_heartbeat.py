"""ConsumerGroupHeartbeat. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class TopicPartitions(NamedTuple):
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[int] = ()


class ConsumerGroupHeartbeatRequest(NamedTuple):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Sequence[TopicPartitions] | None = None


class Assignment(NamedTuple):
    topic_partitions: Sequence[TopicPartitions] = ()


class ConsumerGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


_TOPIC_PARTITIONS: Final = Struct(
    TopicPartitions,
    topic_id=Field(UUID),
    partitions=Field(INT32, is_array=True),
)
_CONSUMER_GROUP_HEARTBEAT_REQUEST: Final = Struct(
    ConsumerGroupHeartbeatRequest,
    group_id=Field(STRING),
    member_id=Field(STRING),
    member_epoch=Field(INT32),
    instance_id=Field(STRING, null_since=0),
    rack_id=Field(STRING, null_since=0),
    rebalance_timeout_ms=Field(INT32),
    subscribed_topic_names=Field(STRING, is_array=True, null_since=0),
    subscribed_topic_regex=Field(STRING, since=1, null_since=1),
    server_assignor=Field(STRING, null_since=0),
    topic_partitions=Field(_TOPIC_PARTITIONS, is_array=True, null_since=0),
)
CONSUMER_GROUP_HEARTBEAT_REQUEST: Final[Message[ConsumerGroupHeartbeatRequest]] = Message(
    _CONSUMER_GROUP_HEARTBEAT_REQUEST, api_key=68, versions=(0, 1), first_flexible=0
)
_ASSIGNMENT: Final = Struct(
    Assignment,
    topic_partitions=Field(_TOPIC_PARTITIONS, is_array=True),
)
_CONSUMER_GROUP_HEARTBEAT_RESPONSE: Final = Struct(
    ConsumerGroupHeartbeatResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    member_id=Field(STRING, null_since=0),
    member_epoch=Field(INT32),
    heartbeat_interval_ms=Field(INT32),
    assignment=Field(_ASSIGNMENT, null_since=0),
)
CONSUMER_GROUP_HEARTBEAT_RESPONSE: Final[Message[ConsumerGroupHeartbeatResponse]] = Message(
    _CONSUMER_GROUP_HEARTBEAT_RESPONSE, api_key=68, versions=(0, 1), first_flexible=0
)
