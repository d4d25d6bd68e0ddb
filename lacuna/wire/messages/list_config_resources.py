"""ListConfigResources. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, String, messages


class ListConfigResourcesRequest(NamedTuple):
    resource_types: Annotated[Sequence[Int8], In(since=1)] = ()


class ConfigResource(NamedTuple):
    resource_name: String = ""
    resource_type: Annotated[Int8, In(since=1)] = 16


class ListConfigResourcesResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Sequence[ConfigResource] = ()


LIST_CONFIG_RESOURCES_REQUEST, LIST_CONFIG_RESOURCES_RESPONSE = messages(
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    api_key=74,
    versions=(0, 1),
    first_flexible=0,
)
