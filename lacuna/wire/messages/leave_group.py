"""LeaveGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class MemberIdentity(NamedTuple):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(NamedTuple):
    group_id: str = ""
    member_id: str = ""
    members: Sequence[MemberIdentity] = ()


class MemberResponse(NamedTuple):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


class LeaveGroupResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    members: Sequence[MemberResponse] = ()


_MEMBER_IDENTITY: Final = Struct(
    MemberIdentity,
    member_id=Field(STRING, since=3),
    group_instance_id=Field(STRING, since=3, null_since=3),
    reason=Field(STRING, since=5, null_since=5),
)
_LEAVE_GROUP_REQUEST: Final = Struct(
    LeaveGroupRequest,
    group_id=Field(STRING),
    member_id=Field(STRING, until=2),
    members=Field(_MEMBER_IDENTITY, is_array=True, since=3),
)
LEAVE_GROUP_REQUEST: Final[Message[LeaveGroupRequest]] = Message(
    _LEAVE_GROUP_REQUEST, api_key=13, versions=(0, 5), first_flexible=4
)
_MEMBER_RESPONSE: Final = Struct(
    MemberResponse,
    member_id=Field(STRING, since=3),
    group_instance_id=Field(STRING, since=3, null_since=3),
    error_code=Field(INT16, since=3),
)
_LEAVE_GROUP_RESPONSE: Final = Struct(
    LeaveGroupResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16),
    members=Field(_MEMBER_RESPONSE, is_array=True, since=3),
)
LEAVE_GROUP_RESPONSE: Final[Message[LeaveGroupResponse]] = Message(
    _LEAVE_GROUP_RESPONSE, api_key=13, versions=(0, 5), first_flexible=4
)
