"""DescribeConfigs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeConfigsResource(NamedTuple):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: Sequence[str] | None = ()


class DescribeConfigsRequest(NamedTuple):
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribeConfigsSynonym(NamedTuple):
    name: str = ""
    value: str | None = ""
    source: int = 0


class DescribeConfigsResourceResult(NamedTuple):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    is_default: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: int = 0
    documentation: str | None = ""


class DescribeConfigsResult(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


class DescribeConfigsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[DescribeConfigsResult] = ()


_DESCRIBE_CONFIGS_RESOURCE: Final = Struct(
    DescribeConfigsResource,
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    configuration_keys=Field(STRING, is_array=True, null_since=0),
)
_DESCRIBE_CONFIGS_REQUEST: Final = Struct(
    DescribeConfigsRequest,
    resources=Field(_DESCRIBE_CONFIGS_RESOURCE, is_array=True),
    include_synonyms=Field(BOOL, since=1),
    include_documentation=Field(BOOL, since=3),
)
DESCRIBE_CONFIGS_REQUEST: Final[Message[DescribeConfigsRequest]] = Message(
    _DESCRIBE_CONFIGS_REQUEST, api_key=32, versions=(0, 4), first_flexible=4
)
_DESCRIBE_CONFIGS_SYNONYM: Final = Struct(
    DescribeConfigsSynonym,
    name=Field(STRING, since=1),
    value=Field(STRING, since=1, null_since=0),
    source=Field(INT8, since=1),
)
_DESCRIBE_CONFIGS_RESOURCE_RESULT: Final = Struct(
    DescribeConfigsResourceResult,
    name=Field(STRING),
    value=Field(STRING, null_since=0),
    read_only=Field(BOOL),
    is_default=Field(BOOL, until=0),
    config_source=Field(INT8, since=1),
    is_sensitive=Field(BOOL),
    synonyms=Field(_DESCRIBE_CONFIGS_SYNONYM, is_array=True, since=1),
    config_type=Field(INT8, since=3),
    documentation=Field(STRING, since=3, null_since=0),
)
_DESCRIBE_CONFIGS_RESULT: Final = Struct(
    DescribeConfigsResult,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    configs=Field(_DESCRIBE_CONFIGS_RESOURCE_RESULT, is_array=True),
)
_DESCRIBE_CONFIGS_RESPONSE: Final = Struct(
    DescribeConfigsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_DESCRIBE_CONFIGS_RESULT, is_array=True),
)
DESCRIBE_CONFIGS_RESPONSE: Final[Message[DescribeConfigsResponse]] = Message(
    _DESCRIBE_CONFIGS_RESPONSE, api_key=32, versions=(0, 4), first_flexible=4
)
