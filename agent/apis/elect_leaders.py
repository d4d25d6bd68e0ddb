"""ElectLeaders v0-v2 (KIP-460): every partition has the leader that it prefers, so none is needed.

ELECTION_NOT_NEEDED for each partition that was named; null partitions are all, of which those without an error or an
election are left out, as in Kafka. What does not exist is UNKNOWN_TOPIC_OR_PARTITION, an election type
other than preferred (0) and unclean (1) INVALID_REQUEST.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.views import view_with

if TYPE_CHECKING:
    from agent.context import AgentContext

PREFERRED, UNCLEAN = 0, 1
_NOT_NEEDED = "Leader election not needed for topic partition."

#: topic -> partition -> (error code, message)
_Results = Mapping[str, Mapping[int, tuple[int, str | None]]]


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster, which is asked anew for a topic that is not in it."""
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        error = int(KafkaError.invalid_request), f"Unknown election type {kind}"
        return _answer(request, error[0], _same(request, error))
    wanted = [each.topic for each in request.topic_partitions or ()]
    cluster = await view_with(context, wanted)
    if request.topic_partitions is None:
        return _answer(request, KafkaError.none, {name: {} for name in cluster.topics_by_name})
    return _answer(
        request,
        KafkaError.none,
        {
            each.topic: {index: _result(context, each.topic, index) for index in each.partitions}
            for each in request.topic_partitions
        },
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error at the top and for every partition."""
    return _answer(request, error_code, _same(request, (error_code, None)))


def _same(request: Any, error: tuple[int, str | None]) -> _Results:
    return {
        each.topic: dict.fromkeys(each.partitions, error) for each in request.topic_partitions or ()
    }


def _result(context: "AgentContext", name: str, index: int) -> tuple[int, str]:
    topic = context.control.cluster.topics_by_name.get(name)
    unknown = int(KafkaError.unknown_topic_or_partition)
    if topic is None:
        return unknown, f"No such topic as {name}"
    if not 0 <= index < topic.partition_count:
        return unknown, f"No such partition as {name}-{index}"
    return int(KafkaError.election_not_needed), _NOT_NEEDED


def _answer(request: Any, error_code: int, results: _Results) -> Any:
    return build(
        request,
        "ElectLeadersResponse",
        error_code=error_code,
        replica_election_results=tuple(
            build(
                request,
                "ReplicaElectionResult",
                topic=name,
                partition_result=tuple(
                    build(
                        request,
                        "PartitionResult",
                        partition_id=index,
                        error_code=code,
                        error_message=message,
                    )
                    for index, (code, message) in partitions.items()
                ),
            )
            for name, partitions in results.items()
        ),
    )


API = Api(
    key=43,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes="the preferred leader leads: ELECTION_NOT_NEEDED",
)
