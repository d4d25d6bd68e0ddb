"""DescribeConfigs v0: of clients before 1.1. Whether a value is a default, instead of where it is from."""

from typing import Any, Final

from kio.schema.describe_configs.v1.request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kio.schema.describe_configs.v1.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

from agent.apis import describe_configs
from agent.apis.configs import DEFAULT
from agent.apis.registry import Api
from agent.apis.tables import (
    BOOL,
    ERROR_CODE,
    INT8,
    MILLISECONDS,
    NULLABLE_STRING,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)
from agent.wire import Buffer


class _IsDefault:
    """A config's source, written as whether that is the default."""

    def read(self, body: memoryview, at: int) -> tuple[Any, int]:
        """Only answers have it."""
        return BOOL.read(body, at)

    def write(self, out: list[Buffer], value: int) -> None:
        """One byte."""
        BOOL.write(out, value == DEFAULT)


_RESOURCE: Final = Entity(
    DescribeConfigsResource,
    ("resource_type", INT8),
    ("resource_name", STRING),
    ("configuration_keys", Array(STRING, nullable=True)),
)
_REQUEST: Final = Entity(
    DescribeConfigsRequest, ("resources", Array(_RESOURCE)), include_synonyms=False
)
_CONFIG: Final = Entity(
    DescribeConfigsResourceResult,
    ("name", STRING),
    ("value", NULLABLE_STRING),
    ("read_only", BOOL),
    ("config_source", _IsDefault()),
    ("is_sensitive", BOOL),
)
_RESULT: Final = Entity(
    DescribeConfigsResult,
    ("error_code", ERROR_CODE),
    ("error_message", NULLABLE_STRING),
    ("resource_type", INT8),
    ("resource_name", STRING),
    ("configs", Array(_CONFIG)),
)
_RESPONSE: Final = Entity(
    DescribeConfigsResponse, ("throttle_time", MILLISECONDS), ("results", Array(_RESULT))
)

API = Api(
    key=32,
    min_version=0,
    max_version=0,
    handle=describe_configs.handle,
    refuse=describe_configs.refuse,
    decode=reader({0: _REQUEST}),
    encode=writer({0: _RESPONSE}),
)
