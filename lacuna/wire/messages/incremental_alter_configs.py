"""IncrementalAlterConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class AlterableConfig(NamedTuple):
    name: str = ""
    config_operation: int = 0
    value: str | None = ""


class AlterConfigsResource(NamedTuple):
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(NamedTuple):
    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


_ALTERABLE_CONFIG: Final = Struct(
    AlterableConfig,
    name=Field(STRING),
    config_operation=Field(INT8),
    value=Field(STRING, null_since=0),
)
_ALTER_CONFIGS_RESOURCE: Final = Struct(
    AlterConfigsResource,
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    configs=Field(_ALTERABLE_CONFIG, is_array=True),
)
_INCREMENTAL_ALTER_CONFIGS_REQUEST: Final = Struct(
    IncrementalAlterConfigsRequest,
    resources=Field(_ALTER_CONFIGS_RESOURCE, is_array=True),
    validate_only=Field(BOOL),
)
INCREMENTAL_ALTER_CONFIGS_REQUEST: Final[Message[IncrementalAlterConfigsRequest]] = Message(
    _INCREMENTAL_ALTER_CONFIGS_REQUEST, api_key=44, versions=(0, 1), first_flexible=1
)
_ALTER_CONFIGS_RESOURCE_RESPONSE: Final = Struct(
    AlterConfigsResourceResponse,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    resource_type=Field(INT8),
    resource_name=Field(STRING),
)
_INCREMENTAL_ALTER_CONFIGS_RESPONSE: Final = Struct(
    IncrementalAlterConfigsResponse,
    throttle_time_ms=Field(INT32),
    responses=Field(_ALTER_CONFIGS_RESOURCE_RESPONSE, is_array=True),
)
INCREMENTAL_ALTER_CONFIGS_RESPONSE: Final[Message[IncrementalAlterConfigsResponse]] = Message(
    _INCREMENTAL_ALTER_CONFIGS_RESPONSE, api_key=44, versions=(0, 1), first_flexible=1
)
