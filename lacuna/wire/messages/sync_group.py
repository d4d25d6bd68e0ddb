"""SyncGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class SyncGroupRequestAssignment(NamedTuple):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(NamedTuple):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()


class SyncGroupResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


_SYNC_GROUP_REQUEST_ASSIGNMENT: Final = Struct(
    SyncGroupRequestAssignment,
    member_id=Field(STRING),
    assignment=Field(BYTES),
)
_SYNC_GROUP_REQUEST: Final = Struct(
    SyncGroupRequest,
    group_id=Field(STRING),
    generation_id=Field(INT32),
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=3, null_since=3),
    protocol_type=Field(STRING, since=5, null_since=5),
    protocol_name=Field(STRING, since=5, null_since=5),
    assignments=Field(_SYNC_GROUP_REQUEST_ASSIGNMENT, is_array=True),
)
SYNC_GROUP_REQUEST: Final[Message[SyncGroupRequest]] = Message(
    _SYNC_GROUP_REQUEST, api_key=14, versions=(0, 5), first_flexible=4
)
_SYNC_GROUP_RESPONSE: Final = Struct(
    SyncGroupResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16),
    protocol_type=Field(STRING, since=5, null_since=5),
    protocol_name=Field(STRING, since=5, null_since=5),
    assignment=Field(BYTES),
)
SYNC_GROUP_RESPONSE: Final[Message[SyncGroupResponse]] = Message(
    _SYNC_GROUP_RESPONSE, api_key=14, versions=(0, 5), first_flexible=4
)
