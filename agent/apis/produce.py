"""Produce v3-v13.

A batch is answered when its segment is in the store and its commit durable (S2): acks 1 and all are the
same, acks 0 is not answered, and closes the connection where it fails, as Kafka does. Versions 12 and up
add their partitions to the transaction, v11 says TRANSACTION_ABORTABLE of one that is not in it, below
INVALID_TXN_STATE (KIP-890). Topics are not created here: clients ask Metadata first. v0-v2 are
agent/apis/produce_message_sets.py. The service is agent/produce/service.py.
"""

from typing import TYPE_CHECKING

from agent.apis.registry import Api, Peer
from agent.produce import codec
from agent.produce.buffer import NOT_PERSISTED
from agent.produce.codec import ProduceRequest, ProduceResponse
from agent.produce.service import refuse as refuse_all
from agent.wire import MalformedRequest
from controlplane.client.errors import CommandRefused

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",
    request: ProduceRequest,
    peer: Peer,  # noqa: ARG001 - every handler has it
) -> ProduceResponse | None:
    """Wait for the verdicts; an error with acks=0 ends the connection by way of `refuse`."""
    response = await context.produce.produce(request)
    if request.acks:
        return response
    for topic in response.topics:
        for answer in topic.partitions:
            if answer.error_code:
                raise CommandRefused(answer.error_code, f"acks=0: {answer.error_message or 'lost'}")
    return None


def refuse(request: ProduceRequest, error_code: int) -> ProduceResponse:
    """The error for every partition; raises MalformedRequest where nobody waits for an answer."""
    if not request.acks:
        raise MalformedRequest(f"a batch sent with acks=0 failed with error {error_code}")
    return refuse_all(request, error_code)


API = Api(
    key=0,
    min_version=codec.MIN_VERSION,
    max_version=codec.MAX_VERSION,
    handle=handle,
    refuse=refuse,
    decode=codec.decode,
    encode=codec.encode,
    pipelined=True,
    unavailable=NOT_PERSISTED.error_code,
)
