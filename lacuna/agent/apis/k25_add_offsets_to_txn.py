"""AddOffsetsToTxn v0-v4.

The group's offsets become part of the transaction (KIP-98, TV1; under TV2 TxnOffsetCommit v5 does this itself). A
fenced producer gets PRODUCER_FENCED from v2 on, and INVALID_PRODUCER_EPOCH before (KIP-588).
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.fencing import fenced
from lacuna.agent.guards.transactions import add_offsets_to_txn as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.transactions_pb2 import AddOffsetsToTxn
from lacuna.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN_REQUEST,
    ADD_OFFSETS_TO_TXN_RESPONSE,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

FIRST_PRODUCER_FENCED = 2


async def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Send one AddOffsetsToTxn command."""
    command = AddOffsetsToTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
    )
    reply = await call.context.control.call(call.command(add_offsets_to_txn=command))
    return refuse(call, request, reply.offsets_added_to_txn.error_code)


def refuse(
    call: Call, _request: AddOffsetsToTxnRequest, error_code: int
) -> AddOffsetsToTxnResponse:
    """Answer with the error code, which is the whole answer."""
    knows = call.version >= FIRST_PRODUCER_FENCED
    return AddOffsetsToTxnResponse(error_code=fenced(error_code, knows))


API = Api(
    request=ADD_OFFSETS_TO_TXN_REQUEST,
    response=ADD_OFFSETS_TO_TXN_RESPONSE,
    max_version=4,
    handle=handle,
    refuse=refuse,
    guard=guard,
    moved=ErrorCode.NOT_COORDINATOR,
)
