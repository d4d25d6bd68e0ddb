"""DescribeClientQuotas v0-v1 (KIP-546): there are none.

An entity type that Kafka has not is UNSUPPORTED_VERSION, as there.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.topic_configs import shorten

if TYPE_CHECKING:
    from agent.context import AgentContext

ENTITY_TYPES = frozenset({"user", "client-id", "ip"})


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """No entries."""
    for component in request.components:
        if component.entity_type not in ENTITY_TYPES:
            return build(
                request,
                "DescribeClientQuotasResponse",
                error_code=KafkaError.unsupported_version,
                error_message=f"Unsupported entity type {shorten(component.entity_type)}",
                entries=None,
            )
    return build(
        request,
        "DescribeClientQuotasResponse",
        error_code=KafkaError.none,
        error_message="",
        entries=(),
    )


API = Api(key=48, min_version=0, max_version=1, handle=handle, notes="there are no quotas")
