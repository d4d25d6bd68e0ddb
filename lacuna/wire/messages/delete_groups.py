"""DeleteGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, String, messages


class DeleteGroupsRequest(NamedTuple):
    groups_names: Sequence[String] = ()


class DeletableGroupResult(NamedTuple):
    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()


DELETE_GROUPS_REQUEST, DELETE_GROUPS_RESPONSE = messages(
    DeleteGroupsRequest, DeleteGroupsResponse, api_key=42, versions=(0, 2), first_flexible=2
)
