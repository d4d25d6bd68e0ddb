"""AlterClientQuotas. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, FLOAT64, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class EntityData(NamedTuple):
    entity_type: str = ""
    entity_name: str | None = ""


class OpData(NamedTuple):
    key: str = ""
    value: float = 0.0
    remove: bool = False


class EntryData(NamedTuple):
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()


class AlterClientQuotasRequest(NamedTuple):
    entries: Sequence[EntryData] = ()
    validate_only: bool = False


class AlterClientQuotasResponseEntryData(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    entity: Sequence[EntityData] = ()


class AlterClientQuotasResponse(NamedTuple):
    throttle_time_ms: int = 0
    entries: Sequence[AlterClientQuotasResponseEntryData] = ()


_ENTITY_DATA: Final = Struct(
    EntityData,
    entity_type=Field(STRING),
    entity_name=Field(STRING, null_since=0),
)
_OP_DATA: Final = Struct(
    OpData,
    key=Field(STRING),
    value=Field(FLOAT64),
    remove=Field(BOOL),
)
_ENTRY_DATA: Final = Struct(
    EntryData,
    entity=Field(_ENTITY_DATA, is_array=True),
    ops=Field(_OP_DATA, is_array=True),
)
_ALTER_CLIENT_QUOTAS_REQUEST: Final = Struct(
    AlterClientQuotasRequest,
    entries=Field(_ENTRY_DATA, is_array=True),
    validate_only=Field(BOOL),
)
ALTER_CLIENT_QUOTAS_REQUEST: Final[Message[AlterClientQuotasRequest]] = Message(
    _ALTER_CLIENT_QUOTAS_REQUEST, api_key=49, versions=(0, 1), first_flexible=1
)
_ALTER_CLIENT_QUOTAS_RESPONSE_ENTRY_DATA: Final = Struct(
    AlterClientQuotasResponseEntryData,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    entity=Field(_ENTITY_DATA, is_array=True),
)
_ALTER_CLIENT_QUOTAS_RESPONSE: Final = Struct(
    AlterClientQuotasResponse,
    throttle_time_ms=Field(INT32),
    entries=Field(_ALTER_CLIENT_QUOTAS_RESPONSE_ENTRY_DATA, is_array=True),
)
ALTER_CLIENT_QUOTAS_RESPONSE: Final[Message[AlterClientQuotasResponse]] = Message(
    _ALTER_CLIENT_QUOTAS_RESPONSE, api_key=49, versions=(0, 1), first_flexible=1
)
