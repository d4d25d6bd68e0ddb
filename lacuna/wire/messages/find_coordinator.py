"""FindCoordinator. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, String, messages


class FindCoordinatorRequest(NamedTuple):
    key: Annotated[String, In(until=3)] = ""
    key_type: Annotated[Int8, In(since=1)] = 0
    coordinator_keys: Annotated[Sequence[String], In(since=4)] = ()


class Coordinator(NamedTuple):
    key: Annotated[String, In(since=4)] = ""
    node_id: Annotated[Int32, In(since=4)] = 0
    host: Annotated[String, In(since=4)] = ""
    port: Annotated[Int32, In(since=4)] = 0
    error_code: Annotated[Int16, In(since=4)] = 0
    error_message: Annotated[String | None, In(since=4)] = ""


class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Annotated[Int16, In(until=3)] = 0
    error_message: Annotated[String | None, In(since=1, until=3)] = ""
    node_id: Annotated[Int32, In(until=3)] = 0
    host: Annotated[String, In(until=3)] = ""
    port: Annotated[Int32, In(until=3)] = 0
    coordinators: Annotated[Sequence[Coordinator], In(since=4)] = ()


FIND_COORDINATOR_REQUEST, FIND_COORDINATOR_RESPONSE = messages(
    FindCoordinatorRequest, FindCoordinatorResponse, api_key=10, versions=(0, 6), first_flexible=3
)
