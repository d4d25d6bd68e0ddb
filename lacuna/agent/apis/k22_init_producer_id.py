"""InitProducerId v0-v5.

The control plane decides (S8). An idempotent producer gets a new id at epoch 0. A transactional producer keeps its id,
its epoch is bumped, and its ongoing transaction is aborted. From v3 on, a request may give the current id and epoch
(KIP-360); the epoch is then bumped only if they are still current. A fenced producer gets PRODUCER_FENCED from v4 on,
and INVALID_PRODUCER_EPOCH before (KIP-588).
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.fencing import fenced
from lacuna.agent.guards.transactions import init_producer_id as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.transactions_pb2 import InitProducerId
from lacuna.wire.messages.transactions import (
    INIT_PRODUCER_ID_REQUEST,
    INIT_PRODUCER_ID_RESPONSE,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FIRST_PRODUCER_FENCED = 4


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Send one InitProducerId command."""
    has_transactional_id = request.transactional_id is not None
    is_half = (request.producer_id == NO_PRODUCER_ID) != (
        request.producer_epoch == NO_PRODUCER_EPOCH
    )
    if has_transactional_id and is_half:
        return refuse(call, request, ErrorCode.INVALID_REQUEST)
    command = InitProducerId(
        transactional_id=request.transactional_id or "",
        has_transactional_id=has_transactional_id,
        transaction_timeout_ms=request.transaction_timeout_ms,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )
    reply = (
        await call.context.control.call(call.command(init_producer_id=command))
    ).producer_id_initialized
    if reply.error_code:
        return refuse(call, request, reply.error_code)
    return InitProducerIdResponse(
        error_code=0,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def refuse(call: Call, _request: InitProducerIdRequest, error_code: int) -> InitProducerIdResponse:
    """Answer with the error and no producer id."""
    return InitProducerIdResponse(
        error_code=fenced(error_code, call.version >= FIRST_PRODUCER_FENCED),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )


API = Api(
    request=INIT_PRODUCER_ID_REQUEST,
    response=INIT_PRODUCER_ID_RESPONSE,
    max_version=5,
    handle=handle,
    refuse=refuse,
    guard=guard,
)
