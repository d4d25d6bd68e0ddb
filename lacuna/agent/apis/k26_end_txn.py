"""EndTxn v0-v5.

The transaction's outcome becomes durable in one journal record for all its partitions and offsets (S1); a retry gets
the same answer as the first attempt (S5). v5 is TV2 (KIP-890): each end bumps the epoch, and the answer has the
producer's next id and epoch (-1 and -1 with an error). A fenced producer gets PRODUCER_FENCED from v2 on, and
INVALID_PRODUCER_EPOCH before (KIP-588). An agent without a lease cannot coordinate. While it was suspended, another
agent may have answered the requests of its clients.
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.fencing import fenced
from lacuna.agent.guards.transactions import end_txn as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import EndTxn
from lacuna.wire.messages.transactions import (
    END_TXN_REQUEST,
    END_TXN_RESPONSE,
    EndTxnRequest,
    EndTxnResponse,
)

FIRST_PRODUCER_FENCED = 2
FIRST_BUMP = 5


async def handle(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Send one EndTxn command."""
    command = EndTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=request.committed,
        bumps_epoch=call.version >= FIRST_BUMP,
        lease_id=call.context.lease.lease_id,
    )
    reply = (await call.context.control.call(Command(end_txn=command))).txn_ended
    if reply.error_code:
        return refuse(call, request, reply.error_code)
    return EndTxnResponse(
        error_code=0, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch
    )


def refuse(call: Call, _request: EndTxnRequest, error_code: int) -> EndTxnResponse:
    """Answer with the error and no producer id."""
    return EndTxnResponse(error_code=fenced(error_code, call.version >= FIRST_PRODUCER_FENCED))


API = Api(
    request=END_TXN_REQUEST,
    response=END_TXN_RESPONSE,
    max_version=5,
    handle=handle,
    refuse=refuse,
    guard=guard,
    moved=ErrorCode.NOT_COORDINATOR,
    notes="v5 bumps the epoch (KIP-890)",
)
