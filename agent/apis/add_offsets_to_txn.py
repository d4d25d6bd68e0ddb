"""AddOffsetsToTxn v0-v4.

The group's offsets become part of the transaction (KIP-98, TV1; under TV2 TxnOffsetCommit v5 does it by
itself). A producer that is fenced hears PRODUCER_FENCED from v2 on, INVALID_PRODUCER_EPOCH below (KIP-588).
"""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.apis.transactions import fenced
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import AddOffsetsToTxn

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_PRODUCER_FENCED = 2


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    command = AddOffsetsToTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
    )
    reply = await context.control.call(Command(add_offsets_to_txn=command))
    return refuse(request, reply.offsets_added_to_txn.error_code)


def refuse(request: Any, error_code: int) -> Any:
    """The answer is an error code."""
    knows = version_of(request) >= FIRST_PRODUCER_FENCED
    return build(request, "AddOffsetsToTxnResponse", error_code=fenced(error_code, knows))


API = Api(key=25, min_version=0, max_version=4, handle=handle, refuse=refuse)
