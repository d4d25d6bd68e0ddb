"""JoinGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, Bytes, In, Int16, Int32, String, messages


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


JOIN_GROUP_REQUEST, JOIN_GROUP_RESPONSE = messages(
    JoinGroupRequest, JoinGroupResponse, api_key=11, versions=(0, 9), first_flexible=6
)
