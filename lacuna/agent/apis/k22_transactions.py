"""The requests that begin and end transactions: InitProducerId, AddOffsetsToTxn, EndTxn.

InitProducerId v0-v5.

The control plane assigns the id and the epoch (S8). An idempotent producer gets a new id at epoch 0. A transactional
producer keeps its id, its epoch is bumped, and its ongoing transaction is aborted. From v3 on, a request may include
the current id and epoch (KIP-360), in which case the epoch is bumped only if they are still current. A fenced producer
gets PRODUCER_FENCED from v4 on, and INVALID_PRODUCER_EPOCH in earlier versions (KIP-588).

AddOffsetsToTxn v0-v4.

Adds a group to the transaction, so that the group's offsets become part of it (KIP-98, TV1). Under TV2, TxnOffsetCommit
v5 adds the group itself. A fenced producer gets PRODUCER_FENCED from v2 on, and INVALID_PRODUCER_EPOCH in earlier
versions (KIP-588).

EndTxn v0-v5.

The transaction's outcome becomes durable in one journal record for all its partitions and offsets (S1); a retry gets
the same answer as the first attempt (S5). v5 is TV2 (KIP-890): each EndTxn bumps the epoch, and the answer contains the
producer's next id and epoch (both -1 if there was an error). A fenced producer gets PRODUCER_FENCED from v2 on, and
INVALID_PRODUCER_EPOCH in earlier versions (KIP-588). An agent without a lease cannot coordinate transactions: while it
was suspended, another agent may have answered requests from its clients.
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.fencing import fenced
from lacuna.agent.guards import transactions as guards
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import AddOffsetsToTxn, EndTxn, InitProducerId
from lacuna.wire.messages import transactions as wire

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
INIT_FIRST_PRODUCER_FENCED = 4
FIRST_PRODUCER_FENCED = 2
FIRST_BUMP = 5


async def init_producer_id(
    call: Call, request: wire.InitProducerIdRequest
) -> wire.InitProducerIdResponse:
    has_transactional_id = request.transactional_id is not None
    is_half = (request.producer_id == NO_PRODUCER_ID) != (
        request.producer_epoch == NO_PRODUCER_EPOCH
    )
    if has_transactional_id and is_half:
        return _refuse_init(call, request, ErrorCode.INVALID_REQUEST)
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
        return _refuse_init(call, request, reply.error_code)
    return wire.InitProducerIdResponse(
        error_code=0,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def _refuse_init(
    call: Call, _request: wire.InitProducerIdRequest, error_code: int
) -> wire.InitProducerIdResponse:
    return wire.InitProducerIdResponse(
        error_code=fenced(error_code, call.version >= INIT_FIRST_PRODUCER_FENCED),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )


async def add_offsets(
    call: Call, request: wire.AddOffsetsToTxnRequest
) -> wire.AddOffsetsToTxnResponse:
    command = AddOffsetsToTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
    )
    reply = await call.context.control.call(call.command(add_offsets_to_txn=command))
    return _refuse_offsets(call, request, reply.offsets_added_to_txn.error_code)


def _refuse_offsets(
    call: Call, _request: wire.AddOffsetsToTxnRequest, error_code: int
) -> wire.AddOffsetsToTxnResponse:
    knows = call.version >= FIRST_PRODUCER_FENCED
    return wire.AddOffsetsToTxnResponse(error_code=fenced(error_code, knows))


async def end_txn(call: Call, request: wire.EndTxnRequest) -> wire.EndTxnResponse:
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
        return _refuse_end(call, request, reply.error_code)
    return wire.EndTxnResponse(
        error_code=0, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch
    )


def _refuse_end(call: Call, _request: wire.EndTxnRequest, error_code: int) -> wire.EndTxnResponse:
    return wire.EndTxnResponse(error_code=fenced(error_code, call.version >= FIRST_PRODUCER_FENCED))


APIS = (
    Api(
        request=wire.INIT_PRODUCER_ID_REQUEST,
        response=wire.INIT_PRODUCER_ID_RESPONSE,
        until=5,
        handle=init_producer_id,
        refusal=_refuse_init,
        guard=guards.init_producer_id,
    ),
    Api(
        request=wire.ADD_OFFSETS_TO_TXN_REQUEST,
        response=wire.ADD_OFFSETS_TO_TXN_RESPONSE,
        handle=add_offsets,
        refusal=_refuse_offsets,
        guard=guards.add_offsets_to_txn,
        moved=ErrorCode.NOT_COORDINATOR,
    ),
    Api(
        request=wire.END_TXN_REQUEST,
        response=wire.END_TXN_RESPONSE,
        handle=end_txn,
        refusal=_refuse_end,
        guard=guards.end_txn,
        moved=ErrorCode.NOT_COORDINATOR,
        notes="v5 bumps the epoch (KIP-890)",
    ),
)
