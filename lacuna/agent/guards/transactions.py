"""Guards for the APIs that concern producers and transactions."""

from typing import Any

from lacuna.agent.api import AnyApi, Call
from lacuna.agent.guards.groups import commits
from lacuna.agent.guards.guard import split, whole
from lacuna.agent.partitions import find_topic
from lacuna.agent.rights import Rights
from lacuna.controlplane.shared.acls import CLUSTER_NAME, Operation, ResourceType
from lacuna.controlplane.shared.authorizer import DENIED
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import transactions as wire
from lacuna.wire.messages.offsets import TxnOffsetCommitRequest

_FIRST_OF_BROKERS = 4


def _write_error(rights: Rights, transactional_id: str) -> int:
    return rights.error(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def init_producer_id(
    rights: Rights, api: AnyApi, call: Call, request: wire.InitProducerIdRequest
) -> Any:
    """Requires Write on the transactional id; without one, IdempotentWrite on the cluster or Write on any topic
    (KIP-679).
    """
    code: int = ErrorCode.NONE
    if request.transactional_id is not None:
        code = _write_error(rights, request.transactional_id)
    elif not (
        rights.may_cluster(Operation.IDEMPOTENT_WRITE, is_logged=False)
        or rights.may_write_somewhere()
    ):
        code = rights.error(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    return await whole(api, call, request, code)


async def add_partitions_to_txn(
    rights: Rights, api: AnyApi, call: Call, request: wire.AddPartitionsToTxnRequest
) -> Any:
    """Requires Write on the transactional id and all topics. From v4 on, only brokers may send the request."""
    if call.version >= _FIRST_OF_BROKERS:
        if rights.may_cluster(Operation.CLUSTER_ACTION):
            return await api.handle(call, request)
        return wire.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if code := _write_error(rights, request.v3_and_below_transactional_id):
        return api.refuse(call, request, code)
    topics = request.v3_and_below_topics
    denied = {each.name for each in topics if not rights.may_topic(Operation.WRITE, each.name)}
    if not denied:
        return await api.handle(call, request)
    return wire.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[_not_added(call, each, denied) for each in topics]
    )


def _not_added(
    call: Call, topic: wire.AddPartitionsToTxnTopic, denied: set[str]
) -> wire.AddPartitionsToTxnTopicResult:
    def code_of(partition: int) -> int:
        if topic.name in denied:
            return DENIED[ResourceType.TOPIC]
        if find_topic(call.context, topic.name, partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    partitions = [
        wire.AddPartitionsToTxnPartitionResult(each, code_of(each)) for each in topic.partitions
    ]
    return wire.AddPartitionsToTxnTopicResult(topic.name, partitions)


async def add_offsets_to_txn(
    rights: Rights, api: AnyApi, call: Call, request: wire.AddOffsetsToTxnRequest
) -> Any:
    """Requires Write on the transactional id, and Read on the group."""
    code = _write_error(rights, request.transactional_id)
    code = code or rights.error(Operation.READ, ResourceType.GROUP, request.group_id)
    return await whole(api, call, request, code)


async def end_txn(rights: Rights, api: AnyApi, call: Call, request: wire.EndTxnRequest) -> Any:
    """Requires Write on the transactional id."""
    code = _write_error(rights, request.transactional_id)
    return await whole(api, call, request, code)


async def txn_offset_commit(
    rights: Rights, api: AnyApi, call: Call, request: TxnOffsetCommitRequest
) -> Any:
    """Requires Write on the transactional id, and Read on the group and each topic."""
    code = _write_error(rights, request.transactional_id)
    code = code or rights.error(Operation.READ, ResourceType.GROUP, request.group_id)
    return api.refuse(call, request, code) if code else await commits(rights, api, call, request)


async def describe_transactions(
    rights: Rights, api: AnyApi, call: Call, request: wire.DescribeTransactionsRequest
) -> Any:
    """Requires Describe on each transactional id. Topics that the client may not describe are omitted."""
    kind = ResourceType.TRANSACTIONAL_ID
    response: wire.DescribeTransactionsResponse = await split(
        api,
        call,
        request,
        "transactional_ids",
        "transaction_states",
        lambda name: rights.error(Operation.DESCRIBE, kind, name),
    )
    states = [_with_described(rights, each) for each in response.transaction_states]
    return response._replace(transaction_states=states)


def _with_described(rights: Rights, state: wire.TransactionState) -> wire.TransactionState:
    seen = [
        each
        for each in state.topics
        if rights.may_topic(Operation.DESCRIBE, each.topic, is_logged=False)
    ]
    return state._replace(topics=seen)


async def list_transactions(
    rights: Rights, api: AnyApi, call: Call, request: wire.ListTransactionsRequest
) -> Any:
    """Lists only the transactions that the client may describe."""
    response: wire.ListTransactionsResponse = await api.handle(call, request)
    kind = ResourceType.TRANSACTIONAL_ID
    seen = [
        each
        for each in response.transaction_states
        if rights.may(Operation.DESCRIBE, kind, each.transactional_id, is_logged=False)
    ]
    return response._replace(transaction_states=seen)
