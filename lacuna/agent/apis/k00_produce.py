"""Produce v0-v13.

A batch is acknowledged once its segment is in the store and its commit is durable (S2). acks=1 and acks=all behave
identically. A request with acks=0 gets no answer, and an error closes the connection, as in Kafka. From v12 on, a
request adds its partitions to the transaction. For a partition that is not in the transaction, v11 returns
TRANSACTION_ABORTABLE and earlier versions INVALID_TXN_STATE (KIP-890). Produce does not create topics, because clients
send a Metadata request first. The service is in agent/produce/service.py, and the conversion of the message sets of
v0-v2 is in agent/produce/message_sets.py.
"""

from typing import Final

from lacuna.agent.api import Api, Call, MalformedRequest
from lacuna.agent.guards.records import produce as guard
from lacuna.agent.produce.buffer import NOT_PERSISTED
from lacuna.agent.produce.message_sets import produce_message_sets
from lacuna.agent.produce.service import refuse as refuse_all
from lacuna.agent.quotas.limits import PRODUCED
from lacuna.controlplane.client import CommandRefused
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import produce as wire

_FIRST_BATCHES: Final = 3


async def handle(call: Call, request: wire.ProduceRequest) -> wire.ProduceResponse | None:
    """Produce the batches and wait for their verdicts. With acks=0, an error closes the connection."""
    service = call.context.produce
    if call.version < _FIRST_BATCHES:
        order = call.peer.arrival_order
        response = await produce_message_sets(service, request, call.version, order)
    else:
        response = await service.produce(request, call.version)
    if request.acks:
        return response
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise CommandRefused(answer.error_code, f"acks=0: {answer.error_message or 'lost'}")
    return None


def refuse(_call: Call, request: wire.ProduceRequest, error_code: int) -> wire.ProduceResponse:
    if not request.acks:
        raise MalformedRequest(f"a batch sent with acks=0 failed with error {error_code}")
    return refuse_all(request, error_code)


API = Api(
    request=wire.PRODUCE_REQUEST,
    response=wire.PRODUCE_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    quota=PRODUCED,
    most_whole=100_000,
    moved=ErrorCode.NOT_LEADER_OR_FOLLOWER,
    pipelined=True,
    notes="converts message sets (v0 to v2) to batches of magic 2",
    unavailable=NOT_PERSISTED.error_code,
)
