"""Consumer groups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int8, Int16, Int32, String, Uuid, messages


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


class ConsumerGroupDescribeRequest(NamedTuple):
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


class ConsumerGroupDescribeResponseTopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


class ConsumerGroupDescribeResponseAssignment(NamedTuple):
    topic_partitions: Sequence[ConsumerGroupDescribeResponseTopicPartitions] = ()


class Member(NamedTuple):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = ConsumerGroupDescribeResponseAssignment()
    target_assignment: ConsumerGroupDescribeResponseAssignment = (
        ConsumerGroupDescribeResponseAssignment()
    )
    member_type: Annotated[Int8, In(since=1)] = -1


class DescribedGroup(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Sequence[Member] = ()
    authorized_operations: Int32 = -2147483648


class ConsumerGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()


CONSUMER_GROUP_HEARTBEAT_REQUEST, CONSUMER_GROUP_HEARTBEAT_RESPONSE = messages(
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    api_key=68,
    versions=(0, 1),
    first_flexible=0,
)

CONSUMER_GROUP_DESCRIBE_REQUEST, CONSUMER_GROUP_DESCRIBE_RESPONSE = messages(
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    api_key=69,
    versions=(0, 1),
    first_flexible=0,
)
