"""GetTelemetrySubscriptions v0 (KIP-714): a client gets its instance id, and no metric is asked for.

As a Kafka 4.1 without a plugin that takes metrics: it answers, and does not advertise it (docs/adr/0017). A client that
asks all the same comes back after five minutes and never pushes anything.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext

SUBSCRIPTION_ID = 0
PUSH_INTERVAL = timedelta(minutes=5)
MAX_BYTES = 1 << 20
#: zstd, lz4, gzip, snappy, in Kafka's order
CODECS = (4, 3, 1, 2)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """Nothing is remembered of it."""
    instance = request.client_instance_id
    if instance is None:
        instance = UUID(int=context.randomness.getrandbits(128), version=4)
    return _answer(request, KafkaError.none, instance)


def refuse(request: Any, error_code: int) -> Any:
    """The error."""
    return _answer(request, error_code, request.client_instance_id)


def _answer(request: Any, error_code: int, instance: UUID | None) -> Any:
    return build(
        request,
        "GetTelemetrySubscriptionsResponse",
        error_code=error_code,
        client_instance_id=instance,
        subscription_id=SUBSCRIPTION_ID,
        accepted_compression_types=CODECS,
        push_interval=PUSH_INTERVAL,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
        requested_metrics=(),
    )


API = Api(
    key=71,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    notes="as by a Kafka that no plugin takes metrics from (adr/0017)",
)
