"""DescribeTransactions v0 (KIP-664).

States are named as Kafka names them. Without an ongoing transaction the start time is -1 and there
are no partitions. An empty id is INVALID_REQUEST, an unknown one TRANSACTIONAL_ID_NOT_FOUND.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import DescribeTransactions, TransactionDescription

if TYPE_CHECKING:
    from agent.context import AgentContext

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all ids."""
    command = DescribeTransactions(transactional_ids=request.transactional_ids)
    reply = await context.control.call(Command(describe_transactions=command))
    return build(
        request,
        "DescribeTransactionsResponse",
        transaction_states=tuple(
            _state(context, request, each, transactional_id)
            for each, transactional_id in zip(
                reply.transactions_described.transactions, request.transactional_ids, strict=True
            )
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error for every id."""
    return build(
        request,
        "DescribeTransactionsResponse",
        transaction_states=tuple(
            _failed(request, each, error_code) for each in request.transactional_ids
        ),
    )


def _state(
    context: "AgentContext", request: Any, found: TransactionDescription, transactional_id: str
) -> Any:
    if not transactional_id:
        return _failed(request, transactional_id, ErrorCode.INVALID_REQUEST)
    if found.error_code:
        return _failed(request, transactional_id, found.error_code)
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    for each in found.partitions:
        topic = context.control.cluster.topics_by_id.get(each.topic_id)
        if topic is not None:
            partitions[topic.name].append(each.partition)
    return build(
        request,
        "TransactionState",
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout=timedelta(milliseconds=found.transaction_timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=found.start_time_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            build(request, "TopicData", topic=name, partitions=tuple(sorted(numbers)))
            for name, numbers in sorted(partitions.items())
        ),
    )


def _failed(request: Any, transactional_id: str, error_code: int) -> Any:
    return build(
        request,
        "TransactionState",
        error_code=error_code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=_EPOCH,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


API = Api(key=65, min_version=0, max_version=0, handle=handle, refuse=refuse)
