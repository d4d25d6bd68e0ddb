"""DeleteGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.layout import Int16, Int32, Message, String


class DeleteGroupsRequest(NamedTuple):
    groups_names: Sequence[String] = ()


class DeletableGroupResult(NamedTuple):
    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()


DELETE_GROUPS_REQUEST: Final = Message(
    DeleteGroupsRequest, api_key=42, versions=(0, 2), first_flexible=2
)

DELETE_GROUPS_RESPONSE: Final = Message(
    DeleteGroupsResponse, api_key=42, versions=(0, 2), first_flexible=2
)
