"""ListConfigResources. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ListConfigResourcesRequest(NamedTuple):
    resource_types: Sequence[int] = ()


class ConfigResource(NamedTuple):
    resource_name: str = ""
    resource_type: int = 16


class ListConfigResourcesResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: Sequence[ConfigResource] = ()


_LIST_CONFIG_RESOURCES_REQUEST: Final = Struct(
    ListConfigResourcesRequest,
    resource_types=Field(INT8, is_array=True, since=1),
)
LIST_CONFIG_RESOURCES_REQUEST: Final[Message[ListConfigResourcesRequest]] = Message(
    _LIST_CONFIG_RESOURCES_REQUEST, api_key=74, versions=(0, 1), first_flexible=0
)
_CONFIG_RESOURCE: Final = Struct(
    ConfigResource,
    resource_name=Field(STRING),
    resource_type=Field(INT8, since=1),
)
_LIST_CONFIG_RESOURCES_RESPONSE: Final = Struct(
    ListConfigResourcesResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    config_resources=Field(_CONFIG_RESOURCE, is_array=True),
)
LIST_CONFIG_RESOURCES_RESPONSE: Final[Message[ListConfigResourcesResponse]] = Message(
    _LIST_CONFIG_RESOURCES_RESPONSE, api_key=74, versions=(0, 1), first_flexible=0
)
