"""Heartbeat. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class HeartbeatRequest(NamedTuple):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


class HeartbeatResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0


_HEARTBEAT_REQUEST: Final = Struct(
    HeartbeatRequest,
    group_id=Field(STRING),
    generation_id=Field(INT32),
    member_id=Field(STRING),
    group_instance_id=Field(STRING, since=3, null_since=3),
)
HEARTBEAT_REQUEST: Final[Message[HeartbeatRequest]] = Message(
    _HEARTBEAT_REQUEST, api_key=12, versions=(0, 4), first_flexible=4
)
_HEARTBEAT_RESPONSE: Final = Struct(
    HeartbeatResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16),
)
HEARTBEAT_RESPONSE: Final[Message[HeartbeatResponse]] = Message(
    _HEARTBEAT_RESPONSE, api_key=12, versions=(0, 4), first_flexible=4
)
