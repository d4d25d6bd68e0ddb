"""PushTelemetry. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, BYTES, INT8, INT16, INT32, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class PushTelemetryRequest(NamedTuple):
    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""


class PushTelemetryResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0


_PUSH_TELEMETRY_REQUEST: Final = Struct(
    PushTelemetryRequest,
    client_instance_id=Field(UUID),
    subscription_id=Field(INT32),
    terminating=Field(BOOL),
    compression_type=Field(INT8),
    metrics=Field(BYTES),
)
PUSH_TELEMETRY_REQUEST: Final[Message[PushTelemetryRequest]] = Message(
    _PUSH_TELEMETRY_REQUEST, api_key=72, versions=(0, 0), first_flexible=0
)
_PUSH_TELEMETRY_RESPONSE: Final = Struct(
    PushTelemetryResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
)
PUSH_TELEMETRY_RESPONSE: Final[Message[PushTelemetryResponse]] = Message(
    _PUSH_TELEMETRY_RESPONSE, api_key=72, versions=(0, 0), first_flexible=0
)
