"""DeleteGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, String, messages


class DeleteGroupsRequest(NamedTuple):
    groups_names: Sequence[String] = ()


class DeletableGroupResult(NamedTuple):
    group_id: String = ""
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=3)] = None


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()


DELETE_GROUPS_REQUEST, DELETE_GROUPS_RESPONSE = messages(
    DeleteGroupsRequest, DeleteGroupsResponse, api_key=42, versions=(0, 3), first_flexible=2
)
