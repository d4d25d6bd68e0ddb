"""AlterClientQuotas v0-v1 (KIP-546): a quota that nobody enforces is not kept.

To remove one succeeds, since there is none; to set one is INVALID_REQUEST, with a sentence.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """Each entry by itself."""
    return build(
        request,
        "AlterClientQuotasResponse",
        entries=tuple(_result(request, entry) for entry in request.entries),
    )


def _result(request: Any, entry: Any) -> Any:
    is_set = any(not operation.remove for operation in entry.ops)
    return build(
        request,
        "EntryData",
        error_code=KafkaError.invalid_request if is_set else KafkaError.none,
        error_message="Quotas are not enforced here, so they cannot be set." if is_set else None,
        entity=tuple(
            build(request, "EntityData", entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ),
    )


API = Api(
    key=49,
    min_version=0,
    max_version=1,
    handle=handle,
    notes="quotas are not enforced: to set one is INVALID_REQUEST",
)
