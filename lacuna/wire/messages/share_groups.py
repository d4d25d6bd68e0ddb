"""Share groups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int16, Int32, Int64, String, Uuid, messages


class AlterShareGroupOffsetsRequestPartition(NamedTuple):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = ()


class AlterShareGroupOffsetsRequest(NamedTuple):
    group_id: String = ""
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = ()


class AlterShareGroupOffsetsResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = ()


class AlterShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = ()


class DeleteShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(NamedTuple):
    group_id: String = ""
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = ()


class DeleteShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = ()


class DescribeShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


class DescribeShareGroupOffsetsRequestGroup(NamedTuple):
    group_id: String = ""
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = ()


class DescribeShareGroupOffsetsRequest(NamedTuple):
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = ()


class DescribeShareGroupOffsetsResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, In(since=1)] = -1
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = ()


class DescribeShareGroupOffsetsResponseGroup(NamedTuple):
    group_id: String = ""
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = ()


class ShareGroupDescribeRequest(NamedTuple):
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


class TopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


class Assignment(NamedTuple):
    topic_partitions: Sequence[TopicPartitions] = ()


class Member(NamedTuple):
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    assignment: Assignment = Assignment()


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


class ShareGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()


class ShareGroupHeartbeatRequest(NamedTuple):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Sequence[String] | None = None


class ShareGroupHeartbeatResponseTopicPartitions(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ShareGroupHeartbeatResponseAssignment(NamedTuple):
    topic_partitions: Sequence[ShareGroupHeartbeatResponseTopicPartitions] = ()


class ShareGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None


ALTER_SHARE_GROUP_OFFSETS_REQUEST, ALTER_SHARE_GROUP_OFFSETS_RESPONSE = messages(
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    api_key=91,
    versions=(0, 0),
    first_flexible=0,
)

DELETE_SHARE_GROUP_OFFSETS_REQUEST, DELETE_SHARE_GROUP_OFFSETS_RESPONSE = messages(
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    api_key=92,
    versions=(0, 0),
    first_flexible=0,
)

DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST, DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE = messages(
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    api_key=90,
    versions=(0, 1),
    first_flexible=0,
)

SHARE_GROUP_DESCRIBE_REQUEST, SHARE_GROUP_DESCRIBE_RESPONSE = messages(
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    api_key=77,
    versions=(1, 1),
    first_flexible=0,
)

SHARE_GROUP_HEARTBEAT_REQUEST, SHARE_GROUP_HEARTBEAT_RESPONSE = messages(
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    api_key=76,
    versions=(1, 1),
    first_flexible=0,
)
