"""GetTelemetrySubscriptions v0 (KIP-714): gives a client its instance id, and requests no metrics.

An agent answers this API but does not advertise it, like Kafka 4.1 without a plugin that receives metrics
(docs/adr/0017). A client that sends it anyway asks again after five minutes, and never pushes metrics.
"""

from uuid import UUID

from lacuna.agent.api import NOT_ADVERTISED, Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages.get_telemetry_subscriptions import (
    GET_TELEMETRY_SUBSCRIPTIONS_REQUEST,
    GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

SUBSCRIPTION_ID = 0
PUSH_INTERVAL_MS = 5 * 60_000
MAX_BYTES = 1 << 20
#: zstd, lz4, gzip, snappy, in Kafka's order
CODECS = (4, 3, 1, 2)


async def handle(
    call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Answer with the client's instance id, or a new one if it has none; nothing is stored."""
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = UUID(int=call.context.randomness.getrandbits(128), version=4).bytes
    return _answer(ErrorCode.NONE, instance)


def refuse(
    _call: Call, request: GetTelemetrySubscriptionsRequest, error_code: int
) -> GetTelemetrySubscriptionsResponse:
    """Answer with the error."""
    return _answer(error_code, request.client_instance_id)


def _answer(error_code: int, instance: bytes) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=error_code,
        client_instance_id=instance,
        subscription_id=SUBSCRIPTION_ID,
        accepted_compression_types=CODECS,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
    )


API = Api(
    request=GET_TELEMETRY_SUBSCRIPTIONS_REQUEST,
    response=GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE,
    max_version=0,
    advertised=NOT_ADVERTISED,
    handle=handle,
    refuse=refuse,
    guard=None,  # no metrics are stored
    notes="as on a Kafka broker without a plugin that collects metrics "
    "([ADR 17](adr/0017-telemetry-is-answered-not-advertised.md))",
)
