"""GetTelemetrySubscriptions v0 (KIP-714): assigns a client its instance id, and requests no metrics.

This API is served but not advertised, as in Kafka 4.4 without a plugin that receives metrics (docs/adr/0017). A client
that sends the request anyway repeats it after five minutes, and never pushes metrics.

PushTelemetry v0 (KIP-714): drops pushed metrics, since none were requested.

A push without an instance id returns INVALID_REQUEST. A push for another subscription returns UNKNOWN_SUBSCRIPTION_ID,
a push of more than 1 MiB returns TELEMETRY_TOO_LARGE, and a push compressed with a codec that was not offered returns
UNSUPPORTED_COMPRESSION_TYPE. Nothing is decompressed.
"""

from uuid import UUID

from lacuna.agent.api import NOT_ADVERTISED, Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import telemetry as wire

SUBSCRIPTION_ID = 0
PUSH_INTERVAL_MS = 5 * 60_000
MAX_BYTES = 1 << 20
#: zstd, lz4, gzip, snappy, in Kafka's order
CODECS = (4, 3, 1, 2)


async def get(
    call: Call, request: wire.GetTelemetrySubscriptionsRequest
) -> wire.GetTelemetrySubscriptionsResponse:
    """Answer with the client's instance id, or with a new one if it has none. Nothing is stored."""
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = UUID(int=call.context.randomness.getrandbits(128), version=4).bytes
    return _answer(ErrorCode.NONE, instance)


def _answer(error_code: int, instance: bytes) -> wire.GetTelemetrySubscriptionsResponse:
    return wire.GetTelemetrySubscriptionsResponse(
        error_code=error_code,
        client_instance_id=instance,
        subscription_id=SUBSCRIPTION_ID,
        accepted_compression_types=CODECS,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
    )


UNCOMPRESSED = 0


async def push(_call: Call, request: wire.PushTelemetryRequest) -> wire.PushTelemetryResponse:
    return wire.PushTelemetryResponse(error_code=_error(request))


def _error(request: wire.PushTelemetryRequest) -> int:
    if request.client_instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != SUBSCRIPTION_ID:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (UNCOMPRESSED, *CODECS):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > MAX_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


APIS = (
    Api(
        request=wire.GET_TELEMETRY_SUBSCRIPTIONS_REQUEST,
        response=wire.GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE,
        advertised=NOT_ADVERTISED,
        handle=get,
        refusal=lambda _call, request, code: _answer(code, request.client_instance_id),
        guard=None,  # no metrics are stored
        notes="as on a Kafka broker without a plugin that collects metrics "
        "([ADR 17](adr/0017-telemetry-is-answered-not-advertised.md))",
    ),
    Api(
        request=wire.PUSH_TELEMETRY_REQUEST,
        response=wire.PUSH_TELEMETRY_RESPONSE,
        advertised=NOT_ADVERTISED,
        handle=push,
        guard=None,  # no metrics are stored
        notes="as on a Kafka broker without a plugin that collects metrics "
        "([ADR 17](adr/0017-telemetry-is-answered-not-advertised.md))",
    ),
)
