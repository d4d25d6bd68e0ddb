"""DeleteGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DeleteGroupsRequest(NamedTuple):
    groups_names: Sequence[str] = ()


class DeletableGroupResult(NamedTuple):
    group_id: str = ""
    error_code: int = 0


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[DeletableGroupResult] = ()


_DELETE_GROUPS_REQUEST: Final = Struct(
    DeleteGroupsRequest,
    groups_names=Field(STRING, is_array=True),
)
DELETE_GROUPS_REQUEST: Final[Message[DeleteGroupsRequest]] = Message(
    _DELETE_GROUPS_REQUEST, api_key=42, versions=(0, 2), first_flexible=2
)
_DELETABLE_GROUP_RESULT: Final = Struct(
    DeletableGroupResult,
    group_id=Field(STRING),
    error_code=Field(INT16),
)
_DELETE_GROUPS_RESPONSE: Final = Struct(
    DeleteGroupsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_DELETABLE_GROUP_RESULT, is_array=True),
)
DELETE_GROUPS_RESPONSE: Final[Message[DeleteGroupsResponse]] = Message(
    _DELETE_GROUPS_RESPONSE, api_key=42, versions=(0, 2), first_flexible=2
)
