"""GetTelemetrySubscriptions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT8, INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class GetTelemetrySubscriptionsRequest(NamedTuple):
    client_instance_id: bytes = ZERO_UUID


class GetTelemetrySubscriptionsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    accepted_compression_types: Sequence[int] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: Sequence[str] = ()


_GET_TELEMETRY_SUBSCRIPTIONS_REQUEST: Final = Struct(
    GetTelemetrySubscriptionsRequest,
    client_instance_id=Field(UUID),
)
GET_TELEMETRY_SUBSCRIPTIONS_REQUEST: Final[Message[GetTelemetrySubscriptionsRequest]] = Message(
    _GET_TELEMETRY_SUBSCRIPTIONS_REQUEST, api_key=71, versions=(0, 0), first_flexible=0
)
_GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE: Final = Struct(
    GetTelemetrySubscriptionsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    client_instance_id=Field(UUID),
    subscription_id=Field(INT32),
    accepted_compression_types=Field(INT8, is_array=True),
    push_interval_ms=Field(INT32),
    telemetry_max_bytes=Field(INT32),
    delta_temporality=Field(BOOL),
    requested_metrics=Field(STRING, is_array=True),
)
GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE: Final[Message[GetTelemetrySubscriptionsResponse]] = Message(
    _GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE, api_key=71, versions=(0, 0), first_flexible=0
)
