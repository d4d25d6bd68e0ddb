"""AddPartitionsToTxn v0-v5.

Producers send v0-v3, which hold one transaction. v4 and v5 are the batched form that Kafka's brokers send to each other
(KIP-890), which also has `verify_only`. Producers with TV2 add partitions by producing to them. Each transaction is
sent as one command. If one of its partitions does not exist, none is added: the missing partition gets
UNKNOWN_TOPIC_OR_PARTITION, and the others get OPERATION_NOT_ATTEMPTED. An error in the transaction applies to each of
its partitions. A fenced producer gets PRODUCER_FENCED from v2 on, and INVALID_PRODUCER_EPOCH in earlier versions
(KIP-588).
"""

import asyncio
from collections.abc import Iterable, Sequence

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.fencing import fenced
from lacuna.agent.guards.transactions import add_partitions_to_txn as guard
from lacuna.agent.partitions import find_partitions
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import AddPartitionsToTxn
from lacuna.wire.messages import transactions as wire

FIRST_PRODUCER_FENCED = 2
FIRST_BATCHED = 4


async def handle(
    call: Call, request: wire.AddPartitionsToTxnRequest
) -> wire.AddPartitionsToTxnResponse:
    asked = _transactions(call, request)
    if len(asked) == 1:  # a producer's request, which needs no task
        return _answer(call, asked, [await _add(call.context, asked[0])])
    return _answer(call, asked, await asyncio.gather(*(_add(call.context, each) for each in asked)))


def refuse(
    call: Call, request: wire.AddPartitionsToTxnRequest, error_code: int
) -> wire.AddPartitionsToTxnResponse:
    asked = _transactions(call, request)
    return _answer(call, asked, [[error_code] * len(_pairs(each)) for each in asked], error_code)


def _transactions(
    call: Call, request: wire.AddPartitionsToTxnRequest
) -> Sequence[wire.AddPartitionsToTxnTransaction]:
    if call.version >= FIRST_BATCHED:
        return request.transactions
    transaction = wire.AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return (transaction,)


def _pairs(transaction: wire.AddPartitionsToTxnTransaction) -> list[tuple[str, int]]:
    return [
        (topic.name, partition) for topic in transaction.topics for partition in topic.partitions
    ]


async def _add(
    context: AgentContext, transaction: wire.AddPartitionsToTxnTransaction
) -> Sequence[int]:
    found = await find_partitions(context, _pairs(transaction))
    partitions: list[TopicPartition] = [each for each in found if each is not None]
    if len(partitions) < len(found):
        unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        others = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return [unknown if each is None else others for each in found]
    command = AddPartitionsToTxn(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=partitions,
        verify_only=transaction.verify_only,
    )
    reply = await context.control.call(Command(add_partitions_to_txn=command))
    added = reply.partitions_added_to_txn
    if added.error_code:
        return [added.error_code] * len(found)
    return added.error_codes or [0] * len(found)


def _answer(
    call: Call,
    asked: Sequence[wire.AddPartitionsToTxnTransaction],
    error_codes: Iterable[Sequence[int]],
    error_code: int = 0,
) -> wire.AddPartitionsToTxnResponse:
    results = [
        _results(call, each.topics, codes) for each, codes in zip(asked, error_codes, strict=True)
    ]
    if call.version < FIRST_BATCHED:
        return wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    return wire.AddPartitionsToTxnResponse(
        error_code=error_code,
        results_by_transaction=[
            wire.AddPartitionsToTxnResult(each.transactional_id, topics)
            for each, topics in zip(asked, results, strict=True)
        ],
    )


def _results(
    call: Call, topics: Iterable[wire.AddPartitionsToTxnTopic], error_codes: Sequence[int]
) -> list[wire.AddPartitionsToTxnTopicResult]:
    knows_fenced = call.version >= FIRST_PRODUCER_FENCED
    codes = iter(error_codes)
    return [
        wire.AddPartitionsToTxnTopicResult(
            topic.name,
            [
                wire.AddPartitionsToTxnPartitionResult(partition, fenced(next(codes), knows_fenced))
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(
    request=wire.ADD_PARTITIONS_TO_TXN_REQUEST,
    response=wire.ADD_PARTITIONS_TO_TXN_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    pieces=(Pieces(("transactions",), ("results_by_transaction",)),),
    moved=ErrorCode.NOT_COORDINATOR,
    notes="also serves v4 and v5, which Kafka's brokers send to each other",
)
