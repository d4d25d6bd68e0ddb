"""AddPartitionsToTxn v4 and v5: the batched form that Kafka's brokers use among each other (KIP-890).

With `verify_only`, too; producers of TV2 add partitions by producing. Each transaction is one command, as in
agent/apis/add_partitions_to_txn.py, where the errors are described.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agent.apis.add_partitions_to_txn import add
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import fenced

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command a transaction."""
    codes = await asyncio.gather(
        *(
            add(
                context,
                _pairs(each),
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=each.verify_only,
            )
            for each in request.transactions
        )
    )
    return _answer(request, codes)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    codes = [[error_code] * len(_pairs(each)) for each in request.transactions]
    return _answer(request, codes, error_code)


def _pairs(transaction: Any) -> list[tuple[str, int]]:
    """(topic name, partition), in the order of the request."""
    return [
        (topic.name, partition) for topic in transaction.topics for partition in topic.partitions
    ]


def _answer(request: Any, codes: Iterable[Sequence[int]], error_code: int = 0) -> Any:
    return build(
        request,
        "AddPartitionsToTxnResponse",
        error_code=error_code,
        results_by_transaction=tuple(
            build(
                request,
                "AddPartitionsToTxnResult",
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(request, transaction, each),
            )
            for transaction, each in zip(request.transactions, codes, strict=True)
        ),
    )


def _topic_results(request: Any, transaction: Any, codes: Sequence[int]) -> tuple[Any, ...]:
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
                    partition_error_code=fenced(next(each_code), True),
                )
                for partition in topic.partitions
            ),
        )
        for topic in transaction.topics
    )


API = Api(
    key=24,
    min_version=4,
    max_version=5,
    handle=handle,
    refuse=refuse,
    notes="v4 and v5 are Kafka's inter-broker form, served alike",
)
