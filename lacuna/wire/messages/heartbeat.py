"""Heartbeat. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, String, messages


class HeartbeatRequest(NamedTuple):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None


class HeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0


HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE = messages(
    HeartbeatRequest, HeartbeatResponse, api_key=12, versions=(0, 4), first_flexible=4
)
