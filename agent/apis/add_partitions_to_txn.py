"""AddPartitionsToTxn v0-v5.

v0-v3 is a producer's: one transaction. v4 and v5 are the batched form that Kafka's brokers use among
each other (KIP-890), with `verify_only`; producers of TV2 add partitions by producing. If one partition
does not exist, none is added: it gets UNKNOWN_TOPIC_OR_PARTITION and the others OPERATION_NOT_ATTEMPTED.
An error of the transaction is every partition's. A producer that is fenced hears PRODUCER_FENCED from v2
on, INVALID_PRODUCER_EPOCH below (KIP-588).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.apis.transactions import fenced, find_partitions
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import AddPartitionsToTxn

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_BATCHED = 4
FIRST_PRODUCER_FENCED = 2


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of a request, whichever the version."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Sequence[Any]

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """(topic name, partition), in the order of the request."""
        return [(topic.name, partition) for topic in self.topics for partition in topic.partitions]


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command a transaction."""
    transactions = _transactions(request)
    if len(transactions) == 1:  # always, where a producer asks
        codes = [await _add(context, transactions[0])]
    else:
        codes = await asyncio.gather(*(_add(context, each) for each in transactions))
    return _answer(request, transactions, codes)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    transactions = _transactions(request)
    codes = [[error_code] * len(each.pairs) for each in transactions]
    return _answer(request, transactions, codes, error_code)


def _transactions(request: Any) -> list[Transaction]:
    if version_of(request) >= FIRST_BATCHED:
        return [
            Transaction(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.verify_only,
                each.topics,
            )
            for each in request.transactions
        ]
    only = Transaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        False,
        request.v3_and_below_topics,
    )
    return [only]


async def _add(context: "AgentContext", transaction: Transaction) -> list[int]:
    """Error codes, one a partition."""
    found = find_partitions(context, transaction.pairs)
    if None in found:
        unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        others = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return [unknown if each is None else others for each in found]
    command = AddPartitionsToTxn(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=[each for each in found if each is not None],
        verify_only=transaction.verify_only,
    )
    reply = await context.control.call(Command(add_partitions_to_txn=command))
    added = reply.partitions_added_to_txn
    if added.error_code:
        return [added.error_code] * len(found)
    return list(added.error_codes) or [0] * len(found)


def _answer(
    request: Any,
    transactions: Sequence[Transaction],
    codes: Sequence[Sequence[int]],
    error_code: int = 0,
) -> Any:
    results = [
        _topic_results(request, transaction, each)
        for transaction, each in zip(transactions, codes, strict=True)
    ]
    if version_of(request) < FIRST_BATCHED:
        return build(
            request, "AddPartitionsToTxnResponse", results_by_topic_v3_and_below=results[0]
        )
    return build(
        request,
        "AddPartitionsToTxnResponse",
        error_code=error_code,
        results_by_transaction=tuple(
            build(
                request,
                "AddPartitionsToTxnResult",
                transactional_id=transaction.transactional_id,
                topic_results=topics,
            )
            for transaction, topics in zip(transactions, results, strict=True)
        ),
    )


def _topic_results(request: Any, transaction: Transaction, codes: Sequence[int]) -> tuple[Any, ...]:
    knows = version_of(request) >= FIRST_PRODUCER_FENCED
    each_code = iter(codes)
    return tuple(
        build(
            request,
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=tuple(
                build(
                    request,
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=partition,
                    partition_error_code=fenced(next(each_code), knows),
                )
                for partition in topic.partitions
            ),
        )
        for topic in transaction.topics
    )


API = Api(key=24, min_version=0, max_version=5, handle=handle, refuse=refuse)
