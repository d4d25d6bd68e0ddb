"""PushTelemetry v0 (KIP-714): nobody asked for metrics, so what is pushed is dropped.

Without an instance id INVALID_REQUEST, of another subscription UNKNOWN_SUBSCRIPTION_ID, beyond 1 MiB
TELEMETRY_TOO_LARGE, in a codec that was not offered UNSUPPORTED_COMPRESSION_TYPE; nothing is decompressed.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.get_telemetry_subscriptions import CODECS, MAX_BYTES, SUBSCRIPTION_ID
from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext

UNCOMPRESSED = 0


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """Looked at, and dropped."""
    return refuse(request, _error(request))


def refuse(request: Any, error_code: int) -> Any:
    """The error."""
    return build(request, "PushTelemetryResponse", error_code=error_code)


def _error(request: Any) -> int:
    if request.client_instance_id is None:
        return KafkaError.invalid_request
    if request.subscription_id != SUBSCRIPTION_ID:
        return KafkaError.unknown_subscription_id
    if request.compression_type not in (UNCOMPRESSED, *CODECS):
        return KafkaError.unsupported_compression_type
    if len(request.metrics) > MAX_BYTES:
        return KafkaError.telemetry_too_large
    return KafkaError.none


API = Api(
    key=72,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    notes="as by a Kafka that no plugin takes metrics from (adr/0017)",
)
