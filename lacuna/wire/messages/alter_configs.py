"""AlterConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.layout import Bool, Int8, Int16, Int32, Message, String


class AlterableConfig(NamedTuple):
    name: String = ""
    value: String | None = ""


class AlterConfigsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


class AlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


ALTER_CONFIGS_REQUEST: Final = Message(
    AlterConfigsRequest, api_key=33, versions=(0, 2), first_flexible=2
)

ALTER_CONFIGS_RESPONSE: Final = Message(
    AlterConfigsResponse, api_key=33, versions=(0, 2), first_flexible=2
)
