"""LeaveGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, String, messages


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


LEAVE_GROUP_REQUEST, LEAVE_GROUP_RESPONSE = messages(
    LeaveGroupRequest, LeaveGroupResponse, api_key=13, versions=(0, 5), first_flexible=4
)
