"""AlterPartitionReassignments v0-v1 (KIP-455): moves nothing, because partitions have no replicas.

An assignment to the agent that already leads the partition changes nothing and succeeds. Any other assignment returns
INVALID_REPLICA_ASSIGNMENT, with Kafka's message if Kafka would also reject it. Cancelling a reassignment (null
replicas) returns NO_REASSIGNMENT_IN_PROGRESS.

ListPartitionReassignments v0 (KIP-455): always returns an empty list.
"""

from collections.abc import Iterable, Sequence

from lacuna.agent import placement, rendezvous
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.internal import topic_by_name
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import cluster as wire

_Error = tuple[int, str | None]


async def alter(
    call: Call, request: wire.AlterPartitionReassignmentsRequest
) -> wire.AlterPartitionReassignmentsResponse:
    context = call.context
    await view_with(context, [topic.name for topic in request.topics])
    return _answer(
        request,
        ErrorCode.NONE,
        [
            [
                _check(context, topic.name, each.partition_index, each.replicas)
                for each in topic.partitions
            ]
            for topic in request.topics
        ],
    )


def _check(context: AgentContext, name: str, index: int, replicas: Sequence[int] | None) -> _Error:
    topic = topic_by_name(context.control.cluster, name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    problem = _problem(context, replicas)
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    if problem is None and node_ids:
        leader = rendezvous.place(rendezvous.partition_key(topic.topic_id, index), node_ids)
        if list(replicas) == [leader]:
            return ErrorCode.NONE, None
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem or (
        "Partitions have no replicas to move: records are in the object store, and partitions "
        "are placed on the live agents automatically. Add or stop agents instead."
    )


def _problem(context: AgentContext, replicas: Sequence[int]) -> str | None:
    says = "The manual partition assignment includes"
    if not replicas:
        return f"{says} an empty replica list."
    live = {agent.node_id for agent in placement.live_agents(context)}
    seen = set()
    for node_id in replicas:
        if node_id in seen:
            return f"{says} the broker {node_id} more than once."
        seen.add(node_id)
        if node_id not in live:
            return f"{says} broker {node_id}, but no such broker is registered."
    return None


def _answer(
    request: wire.AlterPartitionReassignmentsRequest,
    error_code: int,
    errors: Sequence[Sequence[_Error]],
) -> wire.AlterPartitionReassignmentsResponse:
    return wire.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error_code,
        error_message="",
        responses=[
            _topic(topic, of_topic) for topic, of_topic in zip(request.topics, errors, strict=True)
        ],
    )


def _topic(
    topic: wire.ReassignableTopic, errors: Iterable[_Error]
) -> wire.ReassignableTopicResponse:
    return wire.ReassignableTopicResponse(
        topic.name,
        [
            wire.ReassignablePartitionResponse(each.partition_index, code, message)
            for each, (code, message) in zip(topic.partitions, errors, strict=True)
        ],
    )


async def list_ongoing(
    _call: Call, _request: wire.ListPartitionReassignmentsRequest
) -> wire.ListPartitionReassignmentsResponse:
    return wire.ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None)


APIS = (
    Api(
        request=wire.ALTER_PARTITION_REASSIGNMENTS_REQUEST,
        response=wire.ALTER_PARTITION_REASSIGNMENTS_RESPONSE,
        handle=alter,
        refusal=lambda _call, request, code: _answer(
            request, code, [[(code, None)] * len(each.partitions) for each in request.topics]
        ),
        guard=on_cluster(Operation.ALTER),
        pieces=(Pieces(("topics", "partitions"), ("responses", "partitions")),),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="there are no replicas; any change returns INVALID_REPLICA_ASSIGNMENT",
    ),
    Api(
        request=wire.LIST_PARTITION_REASSIGNMENTS_REQUEST,
        response=wire.LIST_PARTITION_REASSIGNMENTS_RESPONSE,
        handle=list_ongoing,
        guard=on_cluster(Operation.DESCRIBE),
        notes="always empty",
    ),
)
