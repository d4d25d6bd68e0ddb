"""PushTelemetry. Written by lacuna.wire.generator, not by hand."""

from typing import NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Uuid, messages


class PushTelemetryRequest(NamedTuple):
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


PUSH_TELEMETRY_REQUEST, PUSH_TELEMETRY_RESPONSE = messages(
    PushTelemetryRequest, PushTelemetryResponse, api_key=72, versions=(0, 0), first_flexible=0
)
