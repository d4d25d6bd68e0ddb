"""InitProducerId v0-v5.

The control plane decides (S8): an idempotent producer gets a fresh id at epoch 0; a transactional one
keeps its id, its epoch is bumped and what was ongoing is aborted. v3+ may give the current id and
epoch (KIP-360), which bumps only if they are still the current ones. A producer that is fenced hears
PRODUCER_FENCED from v4 on, INVALID_PRODUCER_EPOCH below (KIP-588).
"""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, milliseconds, version_of
from agent.apis.transactions import fenced
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import InitProducerId

if TYPE_CHECKING:
    from agent.context import AgentContext

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FIRST_PRODUCER_FENCED = 4


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    producer_epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    has_transactional_id = request.transactional_id is not None
    is_half = (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH)
    if has_transactional_id and is_half:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    command = InitProducerId(
        transactional_id=request.transactional_id or "",
        has_transactional_id=has_transactional_id,
        transaction_timeout_ms=milliseconds(request.transaction_timeout),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    reply = (await context.control.call(Command(init_producer_id=command))).producer_id_initialized
    if reply.error_code:
        return refuse(request, reply.error_code)
    return build(
        request,
        "InitProducerIdResponse",
        error_code=0,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def refuse(request: Any, error_code: int) -> Any:
    """No id."""
    return build(
        request,
        "InitProducerIdResponse",
        error_code=fenced(error_code, version_of(request) >= FIRST_PRODUCER_FENCED),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )


API = Api(key=22, min_version=0, max_version=5, handle=handle, refuse=refuse)
