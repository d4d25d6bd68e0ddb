"""Telemetry. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, String, Uuid, messages


class GetTelemetrySubscriptionsRequest(NamedTuple):
    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Sequence[Int8] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Sequence[String] = ()


class PushTelemetryRequest(NamedTuple):
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


GET_TELEMETRY_SUBSCRIPTIONS_REQUEST, GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE = messages(
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    api_key=71,
    versions=(0, 0),
    first_flexible=0,
)

PUSH_TELEMETRY_REQUEST, PUSH_TELEMETRY_RESPONSE = messages(
    PushTelemetryRequest, PushTelemetryResponse, api_key=72, versions=(0, 0), first_flexible=0
)
