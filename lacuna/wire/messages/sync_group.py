"""SyncGroup. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int32, String, messages


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


SYNC_GROUP_REQUEST, SYNC_GROUP_RESPONSE = messages(
    SyncGroupRequest, SyncGroupResponse, api_key=14, versions=(0, 5), first_flexible=4
)
