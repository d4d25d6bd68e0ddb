"""DescribeGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, Bytes, In, Int16, Int32, String, messages


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


DESCRIBE_GROUPS_REQUEST, DESCRIBE_GROUPS_RESPONSE = messages(
    DescribeGroupsRequest, DescribeGroupsResponse, api_key=15, versions=(0, 6), first_flexible=5
)
