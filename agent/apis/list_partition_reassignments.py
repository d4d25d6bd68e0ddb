"""ListPartitionReassignments v0 (KIP-455): none is ever going on."""

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
    """Nothing, whatever was asked for."""
    return refuse(request, KafkaError.none)


def refuse(request: Any, error_code: int) -> Any:
    """The error and no topics."""
    return build(
        request,
        "ListPartitionReassignmentsResponse",
        error_code=error_code,
        error_message=None,
        topics=(),
    )


API = Api(key=46, min_version=0, max_version=0, handle=handle, refuse=refuse, notes="always empty")
