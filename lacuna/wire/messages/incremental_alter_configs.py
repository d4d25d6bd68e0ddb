"""IncrementalAlterConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Bool, Int8, Int16, Int32, String, messages


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


INCREMENTAL_ALTER_CONFIGS_REQUEST, INCREMENTAL_ALTER_CONFIGS_RESPONSE = messages(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    api_key=44,
    versions=(0, 1),
    first_flexible=1,
)
