"""JoinGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, BYTES, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class JoinGroupRequestProtocol(NamedTuple):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(NamedTuple):
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: str | None = None


class JoinGroupResponseMember(NamedTuple):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


class JoinGroupResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupResponseMember] = ()


_JOIN_GROUP_REQUEST_PROTOCOL: Final = Struct(
    JoinGroupRequestProtocol,
    name=Field(STRING),
    metadata=Field(BYTES),
)
_JOIN_GROUP_REQUEST: Final = Struct(
    JoinGroupRequest,
    group_id=Field(STRING),
    session_timeout_ms=Field(INT32),
    rebalance_timeout_ms=Field(INT32, since=1),
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=5, null_since=5),
    protocol_type=Field(STRING),
    protocols=Field(_JOIN_GROUP_REQUEST_PROTOCOL, is_array=True),
    reason=Field(STRING, since=8, null_since=8),
)
JOIN_GROUP_REQUEST: Final[Message[JoinGroupRequest]] = Message(
    _JOIN_GROUP_REQUEST, api_key=11, versions=(0, 9), first_flexible=6
)
_JOIN_GROUP_RESPONSE_MEMBER: Final = Struct(
    JoinGroupResponseMember,
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=5, null_since=5),
    metadata=Field(BYTES),
)
_JOIN_GROUP_RESPONSE: Final = Struct(
    JoinGroupResponse,
    throttle_time_ms=Field(INT32, since=2),
    error_code=Field(INT16),
    generation_id=Field(INT32),
    protocol_type=Field(STRING, since=7, null_since=7),
    protocol_name=Field(STRING, null_since=7),
    leader=Field(STRING),
    skip_assignment=Field(BOOL, since=9),
    member_id=Field(STRING),
    members=Field(_JOIN_GROUP_RESPONSE_MEMBER, is_array=True),
)
JOIN_GROUP_RESPONSE: Final[Message[JoinGroupResponse]] = Message(
    _JOIN_GROUP_RESPONSE, api_key=11, versions=(0, 9), first_flexible=6
)
