"""ListGroups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ListGroupsRequest(NamedTuple):
    states_filter: Sequence[str] = ()
    types_filter: Sequence[str] = ()


class ListedGroup(NamedTuple):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


class ListGroupsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: Sequence[ListedGroup] = ()


_LIST_GROUPS_REQUEST: Final = Struct(
    ListGroupsRequest,
    states_filter=Field(STRING, is_array=True, since=4),
    types_filter=Field(STRING, is_array=True, since=5),
)
LIST_GROUPS_REQUEST: Final[Message[ListGroupsRequest]] = Message(
    _LIST_GROUPS_REQUEST, api_key=16, versions=(0, 5), first_flexible=3
)
_LISTED_GROUP: Final = Struct(
    ListedGroup,
    group_id=Field(STRING),
    protocol_type=Field(STRING),
    group_state=Field(STRING, since=4),
    group_type=Field(STRING, since=5),
)
_LIST_GROUPS_RESPONSE: Final = Struct(
    ListGroupsResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16),
    groups=Field(_LISTED_GROUP, is_array=True),
)
LIST_GROUPS_RESPONSE: Final[Message[ListGroupsResponse]] = Message(
    _LIST_GROUPS_RESPONSE, api_key=16, versions=(0, 5), first_flexible=3
)
