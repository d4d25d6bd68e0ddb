"""IncrementalAlterConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.layout import Bool, Int8, Int16, Int32, Message, String


class AlterableConfig(NamedTuple):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class AlterConfigsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


INCREMENTAL_ALTER_CONFIGS_REQUEST: Final = Message(
    IncrementalAlterConfigsRequest, api_key=44, versions=(0, 1), first_flexible=1
)

INCREMENTAL_ALTER_CONFIGS_RESPONSE: Final = Message(
    IncrementalAlterConfigsResponse, api_key=44, versions=(0, 1), first_flexible=1
)
