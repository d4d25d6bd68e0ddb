"""FindCoordinator. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class FindCoordinatorRequest(NamedTuple):
    key: str = ""
    key_type: int = 0
    coordinator_keys: Sequence[str] = ()


class Coordinator(NamedTuple):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: Sequence[Coordinator] = ()


_FIND_COORDINATOR_REQUEST: Final = Struct(
    FindCoordinatorRequest,
    key=Field(STRING, until=3),
    key_type=Field(INT8, since=1),
    coordinator_keys=Field(STRING, is_array=True, since=4),
)
FIND_COORDINATOR_REQUEST: Final[Message[FindCoordinatorRequest]] = Message(
    _FIND_COORDINATOR_REQUEST, api_key=10, versions=(0, 6), first_flexible=3
)
_COORDINATOR: Final = Struct(
    Coordinator,
    key=Field(STRING, since=4),
    node_id=Field(INT32, since=4),
    host=Field(STRING, since=4),
    port=Field(INT32, since=4),
    error_code=Field(INT16, since=4),
    error_message=Field(STRING, since=4, null_since=4),
)
_FIND_COORDINATOR_RESPONSE: Final = Struct(
    FindCoordinatorResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16, until=3),
    error_message=Field(STRING, since=1, until=3, null_since=1),
    node_id=Field(INT32, until=3),
    host=Field(STRING, until=3),
    port=Field(INT32, until=3),
    coordinators=Field(_COORDINATOR, is_array=True, since=4),
)
FIND_COORDINATOR_RESPONSE: Final[Message[FindCoordinatorResponse]] = Message(
    _FIND_COORDINATOR_RESPONSE, api_key=10, versions=(0, 6), first_flexible=3
)
