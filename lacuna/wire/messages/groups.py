"""Groups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, Bytes, In, Int8, Int16, Int32, String, messages


class DeleteGroupsRequest(NamedTuple):
    groups_names: Sequence[String] = ()


class DeletableGroupResult(NamedTuple):
    group_id: String = ""
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=3)] = None


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()


class DescribeGroupsRequest(NamedTuple):
    groups: Sequence[String] = ()
    include_authorized_operations: Annotated[Bool, In(since=3)] = False


class DescribedGroupMember(NamedTuple):
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(NamedTuple):
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: Annotated[Int32, In(since=3)] = -2147483648


class DescribeGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    groups: Sequence[DescribedGroup] = ()


class FindCoordinatorRequest(NamedTuple):
    key: Annotated[String, In(until=3)] = ""
    key_type: Annotated[Int8, In(since=1)] = 0
    coordinator_keys: Annotated[Sequence[String], In(since=4)] = ()


class Coordinator(NamedTuple):
    key: Annotated[String, In(since=4)] = ""
    node_id: Annotated[Int32, In(since=4)] = 0
    host: Annotated[String, In(since=4)] = ""
    port: Annotated[Int32, In(since=4)] = 0
    error_code: Annotated[Int16, In(since=4)] = 0
    error_message: Annotated[String | None, In(since=4)] = ""


class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Annotated[Int16, In(until=3)] = 0
    error_message: Annotated[String | None, In(since=1, until=3)] = ""
    node_id: Annotated[Int32, In(until=3)] = 0
    host: Annotated[String, In(until=3)] = ""
    port: Annotated[Int32, In(until=3)] = 0
    coordinators: Annotated[Sequence[Coordinator], In(since=4)] = ()


class HeartbeatRequest(NamedTuple):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None


class HeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0


class JoinGroupRequestProtocol(NamedTuple):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(NamedTuple):
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, In(since=1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=5)] = None
    protocol_type: String = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: Annotated[String | None, In(since=8)] = None


class JoinGroupResponseMember(NamedTuple):
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=5)] = None
    metadata: Bytes = b""


class JoinGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, In(since=7)] = None
    protocol_name: Annotated[String | None, In(null_since=7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, In(since=9)] = False
    member_id: String = ""
    members: Sequence[JoinGroupResponseMember] = ()


class MemberIdentity(NamedTuple):
    member_id: Annotated[String, In(since=3)] = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None
    reason: Annotated[String | None, In(since=5)] = None


class LeaveGroupRequest(NamedTuple):
    group_id: String = ""
    member_id: Annotated[String, In(until=2)] = ""
    members: Annotated[Sequence[MemberIdentity], In(since=3)] = ()


class MemberResponse(NamedTuple):
    member_id: Annotated[String, In(since=3)] = ""
    group_instance_id: Annotated[String | None, In(since=3)] = ""
    error_code: Annotated[Int16, In(since=3)] = 0


class LeaveGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0
    members: Annotated[Sequence[MemberResponse], In(since=3)] = ()


class ListGroupsRequest(NamedTuple):
    states_filter: Annotated[Sequence[String], In(since=4)] = ()
    types_filter: Annotated[Sequence[String], In(since=5)] = ()


class ListedGroup(NamedTuple):
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, In(since=4)] = ""
    group_type: Annotated[String, In(since=5)] = ""


class ListGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0
    groups: Sequence[ListedGroup] = ()


class SyncGroupRequestAssignment(NamedTuple):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(NamedTuple):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None
    protocol_type: Annotated[String | None, In(since=5)] = None
    protocol_name: Annotated[String | None, In(since=5)] = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()


class SyncGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, In(since=5)] = None
    protocol_name: Annotated[String | None, In(since=5)] = None
    assignment: Bytes = b""


DELETE_GROUPS_REQUEST, DELETE_GROUPS_RESPONSE = messages(
    DeleteGroupsRequest, DeleteGroupsResponse, api_key=42, versions=(0, 3), first_flexible=2
)

DESCRIBE_GROUPS_REQUEST, DESCRIBE_GROUPS_RESPONSE = messages(
    DescribeGroupsRequest, DescribeGroupsResponse, api_key=15, versions=(0, 6), first_flexible=5
)

FIND_COORDINATOR_REQUEST, FIND_COORDINATOR_RESPONSE = messages(
    FindCoordinatorRequest, FindCoordinatorResponse, api_key=10, versions=(0, 6), first_flexible=3
)

HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE = messages(
    HeartbeatRequest, HeartbeatResponse, api_key=12, versions=(0, 4), first_flexible=4
)

JOIN_GROUP_REQUEST, JOIN_GROUP_RESPONSE = messages(
    JoinGroupRequest, JoinGroupResponse, api_key=11, versions=(0, 9), first_flexible=6
)

LEAVE_GROUP_REQUEST, LEAVE_GROUP_RESPONSE = messages(
    LeaveGroupRequest, LeaveGroupResponse, api_key=13, versions=(0, 5), first_flexible=4
)

LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE = messages(
    ListGroupsRequest, ListGroupsResponse, api_key=16, versions=(0, 5), first_flexible=3
)

SYNC_GROUP_REQUEST, SYNC_GROUP_RESPONSE = messages(
    SyncGroupRequest, SyncGroupResponse, api_key=14, versions=(0, 5), first_flexible=4
)
