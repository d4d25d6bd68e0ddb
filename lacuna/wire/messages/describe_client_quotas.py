"""DescribeClientQuotas. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, FLOAT64, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ComponentData(NamedTuple):
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


class DescribeClientQuotasRequest(NamedTuple):
    components: Sequence[ComponentData] = ()
    strict: bool = False


class EntityData(NamedTuple):
    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(NamedTuple):
    key: str = ""
    value: float = 0.0


class EntryData(NamedTuple):
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()


class DescribeClientQuotasResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: Sequence[EntryData] | None = ()


_COMPONENT_DATA: Final = Struct(
    ComponentData,
    entity_type=Field(STRING),
    match_type=Field(INT8),
    match=Field(STRING, null_since=0),
)
_DESCRIBE_CLIENT_QUOTAS_REQUEST: Final = Struct(
    DescribeClientQuotasRequest,
    components=Field(_COMPONENT_DATA, is_array=True),
    strict=Field(BOOL),
)
DESCRIBE_CLIENT_QUOTAS_REQUEST: Final[Message[DescribeClientQuotasRequest]] = Message(
    _DESCRIBE_CLIENT_QUOTAS_REQUEST, api_key=48, versions=(0, 1), first_flexible=1
)
_ENTITY_DATA: Final = Struct(
    EntityData,
    entity_type=Field(STRING),
    entity_name=Field(STRING, null_since=0),
)
_VALUE_DATA: Final = Struct(
    ValueData,
    key=Field(STRING),
    value=Field(FLOAT64),
)
_ENTRY_DATA: Final = Struct(
    EntryData,
    entity=Field(_ENTITY_DATA, is_array=True),
    values=Field(_VALUE_DATA, is_array=True),
)
_DESCRIBE_CLIENT_QUOTAS_RESPONSE: Final = Struct(
    DescribeClientQuotasResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    entries=Field(_ENTRY_DATA, is_array=True, null_since=0),
)
DESCRIBE_CLIENT_QUOTAS_RESPONSE: Final[Message[DescribeClientQuotasResponse]] = Message(
    _DESCRIBE_CLIENT_QUOTAS_RESPONSE, api_key=48, versions=(0, 1), first_flexible=1
)
