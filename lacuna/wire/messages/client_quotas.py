"""Client quotas. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Bool, Float64, Int8, Int16, Int32, String, messages


class EntityData(NamedTuple):
    entity_type: String = ""
    entity_name: String | None = ""


class OpData(NamedTuple):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class EntryData(NamedTuple):
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()


class AlterClientQuotasRequest(NamedTuple):
    entries: Sequence[EntryData] = ()
    validate_only: Bool = False


class AlterClientQuotasResponseEntryData(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: Sequence[EntityData] = ()


class AlterClientQuotasResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    entries: Sequence[AlterClientQuotasResponseEntryData] = ()


class ComponentData(NamedTuple):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(NamedTuple):
    components: Sequence[ComponentData] = ()
    strict: Bool = False


class ValueData(NamedTuple):
    key: String = ""
    value: Float64 = 0.0


class DescribeClientQuotasResponseEntryData(NamedTuple):
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()


class DescribeClientQuotasResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: Sequence[DescribeClientQuotasResponseEntryData] | None = ()


ALTER_CLIENT_QUOTAS_REQUEST, ALTER_CLIENT_QUOTAS_RESPONSE = messages(
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    api_key=49,
    versions=(0, 1),
    first_flexible=1,
)

DESCRIBE_CLIENT_QUOTAS_REQUEST, DESCRIBE_CLIENT_QUOTAS_RESPONSE = messages(
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    api_key=48,
    versions=(0, 1),
    first_flexible=1,
)
