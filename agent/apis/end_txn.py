"""EndTxn v0-v5.

The transaction's outcome becomes durable in one journal record over all its partitions and offsets (S1);
a retry is answered as the first time (S5). v5 is TV2 (KIP-890): the epoch is bumped at each end, and
the id and epoch to go on with are in the answer (-1, -1 with an error). A producer that is fenced hears
PRODUCER_FENCED from v2 on, INVALID_PRODUCER_EPOCH below (KIP-588). An agent without a lease is no coordinator:
what its clients sent while it slept may have been answered by another one long ago. On the way of every
transaction, so it is read and written by hand.
"""

import struct
from typing import TYPE_CHECKING, NamedTuple

from agent.apis.registry import Api, Peer
from agent.apis.transactions import fenced
from agent.wire import MalformedRequest, read_name, skip_tags
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import EndTxn

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_PRODUCER_FENCED = 2
FIRST_FLEXIBLE = 3
FIRST_BUMP = 5

_PRODUCER_COMMITTED = struct.Struct(">qh?")
# throttle_time_ms, error_code
_ANSWER = struct.Struct(">ih")
_PRODUCER = struct.Struct(">qh")


class EndRequest(NamedTuple):
    """As sent."""

    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class EndResponse(NamedTuple):
    """The producer to go on with, from v5 on."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


async def handle(context: "AgentContext", request: EndRequest, peer: Peer) -> EndResponse:  # noqa: ARG001
    """One command."""
    command = EndTxn(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=request.committed,
        bumps_epoch=request.version >= FIRST_BUMP,
        lease_id=context.lease.lease_id,
    )
    reply = (await context.control.call(Command(end_txn=command))).txn_ended
    if reply.error_code:
        return refuse(request, reply.error_code)
    return EndResponse(0, reply.producer_id, reply.producer_epoch)


def refuse(request: EndRequest, error_code: int) -> EndResponse:
    """The error, and no id to go on with."""
    return EndResponse(fenced(error_code, request.version >= FIRST_PRODUCER_FENCED))


def decode(body: memoryview, version: int) -> EndRequest:
    """A request of v0-v5. Raises MalformedRequest."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        transactional_id, at = read_name(body, 0, flexible)
        producer_id, producer_epoch, committed = _PRODUCER_COMMITTED.unpack_from(body, at)
        if flexible:
            skip_tags(body, at + _PRODUCER_COMMITTED.size)
    except struct.error as error:
        raise MalformedRequest(f"EndTxn v{version} ends early: {error}") from None
    return EndRequest(version, transactional_id, producer_id, producer_epoch, committed)


def encode(response: EndResponse, version: int) -> list[bytes]:
    """The body of the answer."""
    answer = _ANSWER.pack(0, response.error_code)
    if version >= FIRST_BUMP:
        answer += _PRODUCER.pack(response.producer_id, response.producer_epoch)
    return [answer + b"\x00" if version >= FIRST_FLEXIBLE else answer]


API = Api(
    key=26,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse,
    decode=decode,
    encode=encode,
    notes="v5 bumps the epoch (KIP-890)",
)
