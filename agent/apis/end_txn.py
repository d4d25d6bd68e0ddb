"""EndTxn v0-v5.

The transaction's outcome becomes durable in one journal record over all its partitions and offsets (S1);
a retry is answered as the first time (S5). v5 is TV2 (KIP-890): the epoch is bumped at each end, and
the id and epoch to go on with are in the answer (-1, -1 with an error). A producer that is fenced hears
PRODUCER_FENCED from v2 on, INVALID_PRODUCER_EPOCH below (KIP-588). An agent without a lease is no coordinator:
what its clients sent while it slept may have been answered by another one long ago.
"""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.apis.transactions import fenced
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import EndTxn

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_PRODUCER_FENCED = 2
FIRST_BUMP = 5


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    command = EndTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=request.committed,
        bumps_epoch=version_of(request) >= FIRST_BUMP,
        lease_id=context.lease.lease_id,
    )
    reply = (await context.control.call(Command(end_txn=command))).txn_ended
    if reply.error_code:
        return refuse(request, reply.error_code)
    return build(
        request,
        "EndTxnResponse",
        error_code=0,
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, and no id to go on with."""
    knows = version_of(request) >= FIRST_PRODUCER_FENCED
    return build(request, "EndTxnResponse", error_code=fenced(error_code, knows))


API = Api(key=26, min_version=0, max_version=5, handle=handle, refuse=refuse)
