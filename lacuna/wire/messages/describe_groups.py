"""DescribeGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, BYTES, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeGroupsRequest(NamedTuple):
    groups: Sequence[str] = ()
    include_authorized_operations: bool = False


class DescribedGroupMember(NamedTuple):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(NamedTuple):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: int = -2147483648


class DescribeGroupsResponse(NamedTuple):
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()


_DESCRIBE_GROUPS_REQUEST: Final = Struct(
    DescribeGroupsRequest,
    groups=Field(STRING, is_array=True),
    include_authorized_operations=Field(BOOL, since=3),
)
DESCRIBE_GROUPS_REQUEST: Final[Message[DescribeGroupsRequest]] = Message(
    _DESCRIBE_GROUPS_REQUEST, api_key=15, versions=(0, 6), first_flexible=5
)
_DESCRIBED_GROUP_MEMBER: Final = Struct(
    DescribedGroupMember,
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=4, null_since=4),
    client_id=Field(STRING),
    client_host=Field(STRING),
    member_metadata=Field(BYTES),
    member_assignment=Field(BYTES),
)
_DESCRIBED_GROUP: Final = Struct(
    DescribedGroup,
    error_code=Field(INT16),
    error_message=Field(STRING, since=6, null_since=6),
    group_id=Field(STRING),
    group_state=Field(STRING),
    protocol_type=Field(STRING),
    protocol_data=Field(STRING),
    members=Field(_DESCRIBED_GROUP_MEMBER, is_array=True),
    authorized_operations=Field(INT32, since=3),
)
_DESCRIBE_GROUPS_RESPONSE: Final = Struct(
    DescribeGroupsResponse,
    throttle_time_ms=Field(INT32, since=1),
    groups=Field(_DESCRIBED_GROUP, is_array=True),
)
DESCRIBE_GROUPS_RESPONSE: Final[Message[DescribeGroupsResponse]] = Message(
    _DESCRIBE_GROUPS_RESPONSE, api_key=15, versions=(0, 6), first_flexible=5
)
