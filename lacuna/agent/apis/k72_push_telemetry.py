"""PushTelemetry v0 (KIP-714): drops pushed metrics, since none were requested.

A push without an instance id returns INVALID_REQUEST, one for another subscription UNKNOWN_SUBSCRIPTION_ID, one beyond
1 MiB TELEMETRY_TOO_LARGE, and one in a codec that was not offered UNSUPPORTED_COMPRESSION_TYPE. Nothing is
decompressed.
"""

from lacuna.agent.api import NOT_ADVERTISED, Api, Call, error_in
from lacuna.agent.apis.k71_get_telemetry_subscriptions import CODECS, MAX_BYTES, SUBSCRIPTION_ID
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages.push_telemetry import (
    PUSH_TELEMETRY_REQUEST,
    PUSH_TELEMETRY_RESPONSE,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

UNCOMPRESSED = 0


async def handle(_call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Check the request, and drop its metrics."""
    return PushTelemetryResponse(error_code=_error(request))


def _error(request: PushTelemetryRequest) -> int:
    if request.client_instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != SUBSCRIPTION_ID:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (UNCOMPRESSED, *CODECS):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > MAX_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


API = Api(
    request=PUSH_TELEMETRY_REQUEST,
    response=PUSH_TELEMETRY_RESPONSE,
    max_version=0,
    advertised=NOT_ADVERTISED,
    handle=handle,
    refuse=error_in(PUSH_TELEMETRY_RESPONSE),
    guard=None,  # no metrics are stored
    notes="as on a Kafka broker without a plugin that collects metrics "
    "([ADR 17](adr/0017-telemetry-is-answered-not-advertised.md))",
)
