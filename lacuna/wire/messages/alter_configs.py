"""AlterConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class AlterableConfig(NamedTuple):
    name: str = ""
    value: str | None = ""


class AlterConfigsResource(NamedTuple):
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


class AlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(NamedTuple):
    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


_ALTERABLE_CONFIG: Final = Struct(
    AlterableConfig,
    name=Field(STRING),
    value=Field(STRING, null_since=0),
)
_ALTER_CONFIGS_RESOURCE: Final = Struct(
    AlterConfigsResource,
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    configs=Field(_ALTERABLE_CONFIG, is_array=True),
)
_ALTER_CONFIGS_REQUEST: Final = Struct(
    AlterConfigsRequest,
    resources=Field(_ALTER_CONFIGS_RESOURCE, is_array=True),
    validate_only=Field(BOOL),
)
ALTER_CONFIGS_REQUEST: Final[Message[AlterConfigsRequest]] = Message(
    _ALTER_CONFIGS_REQUEST, api_key=33, versions=(0, 2), first_flexible=2
)
_ALTER_CONFIGS_RESOURCE_RESPONSE: Final = Struct(
    AlterConfigsResourceResponse,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    resource_type=Field(INT8),
    resource_name=Field(STRING),
)
_ALTER_CONFIGS_RESPONSE: Final = Struct(
    AlterConfigsResponse,
    throttle_time_ms=Field(INT32),
    responses=Field(_ALTER_CONFIGS_RESOURCE_RESPONSE, is_array=True),
)
ALTER_CONFIGS_RESPONSE: Final[Message[AlterConfigsResponse]] = Message(
    _ALTER_CONFIGS_RESPONSE, api_key=33, versions=(0, 2), first_flexible=2
)
