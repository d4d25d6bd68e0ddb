"""ElectLeaders v0-v2 (KIP-460): elects no leaders, because every partition already has its preferred leader.

Each named partition gets ELECTION_NOT_NEEDED, or UNKNOWN_TOPIC_OR_PARTITION if it does not exist. A null list means all
partitions, in which case the answer lists only errors and elections, as in Kafka. An election type other than preferred
(0) or unclean (1) returns INVALID_REQUEST.
"""

from collections.abc import Mapping

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.internal import all_topics, topic_by_name
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import cluster as wire

PREFERRED, UNCLEAN = 0, 1
_NOT_NEEDED = "Leader election not needed for topic partition."

#: topic -> partition -> (error code, message)
_Results = Mapping[str, Mapping[int, tuple[int, str | None]]]


async def handle(call: Call, request: wire.ElectLeadersRequest) -> wire.ElectLeadersResponse:
    kind = request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        error = int(ErrorCode.INVALID_REQUEST), f"Unknown election type {kind}"
        return _answer(error[0], _same(request, error))
    wanted = [each.topic for each in request.topic_partitions or ()]
    cluster = await view_with(call.context, wanted)
    if request.topic_partitions is None:
        return _answer(ErrorCode.NONE, {name: {} for name in all_topics(cluster)})
    return _answer(
        ErrorCode.NONE,
        {
            each.topic: {
                index: _result(call.context, each.topic, index) for index in each.partitions
            }
            for each in request.topic_partitions
        },
    )


def _same(request: wire.ElectLeadersRequest, error: tuple[int, str | None]) -> _Results:
    return {
        each.topic: dict.fromkeys(each.partitions, error) for each in request.topic_partitions or ()
    }


def _result(context: AgentContext, name: str, index: int) -> tuple[int, str]:
    topic = topic_by_name(context.control.cluster, name)
    # Kafka's wording, which its tools print.
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED


def _answer(error_code: int, results: _Results) -> wire.ElectLeadersResponse:
    return wire.ElectLeadersResponse(
        error_code=error_code,
        replica_election_results=[
            wire.ReplicaElectionResult(
                name,
                [
                    wire.PartitionResult(index, code, message)
                    for index, (code, message) in partitions.items()
                ],
            )
            for name, partitions in results.items()
        ],
    )


API = Api(
    request=wire.ELECT_LEADERS_REQUEST,
    response=wire.ELECT_LEADERS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: _answer(code, _same(request, (code, None))),
    guard=on_cluster(Operation.ALTER),
    pieces=(
        Pieces(
            ("topic_partitions", "partitions"), ("replica_election_results", "partition_result")
        ),
    ),
    notes="returns ELECTION_NOT_NEEDED, because the preferred leader is always the leader",
)
