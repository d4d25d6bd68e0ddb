"""ListGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, String, messages


class ListGroupsRequest(NamedTuple):
    states_filter: Annotated[Sequence[String], In(since=4)] = ()
    types_filter: Annotated[Sequence[String], In(since=5)] = ()


class ListedGroup(NamedTuple):
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, In(since=4)] = ""
    group_type: Annotated[String, In(since=5)] = ""


class ListGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Int16 = 0
    groups: Sequence[ListedGroup] = ()


LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE = messages(
    ListGroupsRequest, ListGroupsResponse, api_key=16, versions=(0, 5), first_flexible=3
)
