"""DescribeTransactions v0 (KIP-664).

States are named as in Kafka. If there is no ongoing transaction, the start time is -1 and there are no partitions. For
a transaction that commits offsets, the partitions include those of __consumer_offsets. An empty transactional id
returns INVALID_REQUEST, and an unknown one returns TRANSACTIONAL_ID_NOT_FOUND.
"""

from collections import defaultdict

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.transactions import describe_transactions as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import CONSUMER_OFFSETS
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import DescribeTransactions, TransactionDescription
from lacuna.wire.messages.transactions import (
    DESCRIBE_TRANSACTIONS_REQUEST,
    DESCRIBE_TRANSACTIONS_RESPONSE,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


async def handle(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    command = DescribeTransactions(transactional_ids=request.transactional_ids)
    reply = await call.context.control.call(Command(describe_transactions=command))
    found = reply.transactions_described.transactions
    return DescribeTransactionsResponse(
        transaction_states=[
            _state(call, each, transactional_id)
            for each, transactional_id in zip(found, request.transactional_ids, strict=True)
        ]
    )


def _state(call: Call, found: TransactionDescription, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    if found.error_code:
        return TransactionState(found.error_code, transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.transaction_timeout_ms,
        transaction_start_time_ms=found.start_time_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=_topics(call, found),
    )


def _topics(call: Call, found: TransactionDescription) -> list[TopicData]:
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    for each in found.partitions:
        topic = call.context.control.cluster.topics_by_id.get(each.topic_id)
        if topic is not None:
            partitions[topic.name].append(each.partition)
    if found.offsets_partitions:
        partitions[CONSUMER_OFFSETS] = [*found.offsets_partitions]
    return [TopicData(name, sorted(numbers)) for name, numbers in sorted(partitions.items())]


API = Api(
    request=DESCRIBE_TRANSACTIONS_REQUEST,
    response=DESCRIBE_TRANSACTIONS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: DescribeTransactionsResponse(
        transaction_states=[TransactionState(code, each) for each in request.transactional_ids]
    ),
    guard=guard,
    pieces=(Pieces(("transactional_ids",), ("transaction_states",)),),
    moved=ErrorCode.NOT_COORDINATOR,
)
