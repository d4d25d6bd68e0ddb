"""AlterPartitionReassignments v0-v1 (KIP-455): partitions have no replicas to move.

An assignment to the agent that leads anyway changes nothing and succeeds. Any other one is
INVALID_REPLICA_ASSIGNMENT, with Kafka's sentence where it would be wrong there too. To cancel (null replicas) is
NO_REASSIGNMENT_IN_PROGRESS.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.views import view_with

if TYPE_CHECKING:
    from agent.context import AgentContext

_Error = tuple[int, str | None]


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster, which is asked anew for a topic that is not in it."""
    await view_with(context, [topic.name for topic in request.topics])
    return _answer(
        request,
        KafkaError.none,
        [
            [
                _check(context, topic.name, each.partition_index, each.replicas)
                for each in topic.partitions
            ]
            for topic in request.topics
        ],
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error at the top and for every partition."""
    error = error_code, None
    return _answer(request, error_code, [[error] * len(each.partitions) for each in request.topics])


def _check(
    context: "AgentContext", name: str, index: int, replicas: Sequence[int] | None
) -> _Error:
    topic = context.control.cluster.topics_by_name.get(name)
    unknown = int(KafkaError.unknown_topic_or_partition)
    if topic is None:
        return unknown, f"Unable to find a topic named {name}."
    if not 0 <= index < topic.partition_count:
        return unknown, f"Unable to find partition {name}:{index}."
    if replicas is None:
        return int(KafkaError.no_reassignment_in_progress), None
    problem = _problem(context, replicas)
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    if problem is None and node_ids:
        leader = placement.place(placement.partition_key(topic.topic_id, index), node_ids)
        if list(replicas) == [leader]:
            return int(KafkaError.none), None
    return int(KafkaError.invalid_replica_assignment), problem or (
        "Partitions have no replicas to move: records are in the object store, and which agent serves "
        "a partition follows from the agents that live. Add or stop agents instead."
    )


def _problem(context: "AgentContext", replicas: Sequence[int]) -> str | None:
    """What Kafka would say of an assignment."""
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


def _answer(request: Any, error_code: int, errors: Sequence[Sequence[_Error]]) -> Any:
    return build(
        request,
        "AlterPartitionReassignmentsResponse",
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
        error_code=error_code,
        error_message=None,
        responses=tuple(
            build(
                request,
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(
                    build(
                        request,
                        "ReassignablePartitionResponse",
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=message,
                    )
                    for each, (code, message) in zip(topic.partitions, of_topic, strict=True)
                ),
            )
            for topic, of_topic in zip(request.topics, errors, strict=True)
        ),
    )


API = Api(
    key=45,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="there are no replicas: what is not so already is INVALID_REPLICA_ASSIGNMENT",
)
