"""DescribeQuorum v0-v2 (KIP-595, KIP-836, KIP-853): what `kafka-metadata-quorum describe` asks.

The control plane is no Raft quorum of brokers. It is shown as one that has a single voter, the agent that names
itself the controller, with the other agents as observers that have caught up; offsets are the version of the
cluster's metadata. Another topic or partition than __cluster_metadata-0 is UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.views import view_with
from controlplane.v1.cluster_pb2 import Agent

if TYPE_CHECKING:
    from agent.context import AgentContext

METADATA_TOPIC = "__cluster_metadata"
LEADER_EPOCH = 1
_FIRST_WITH_NODES = 2
_UNKNOWN = "This server does not host this topic-partition."


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    await view_with(context)
    leader_id = placement.controller(context)
    agents = placement.live_agents(context)
    leaders = [agent for agent in agents if agent.node_id == leader_id]
    found = False
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and each.partition_index == 0:
                found = True
                partitions.append(_quorum(context, request, leaders, agents))
            else:
                partitions.append(_unknown(request, each.partition_index))
        topics.append(
            build(request, "TopicData", topic_name=topic.topic_name, partitions=tuple(partitions))
        )
    names_nodes = found and version_of(request) >= _FIRST_WITH_NODES
    return build(
        request,
        "DescribeQuorumResponse",
        error_code=KafkaError.none,
        error_message="",
        topics=tuple(topics),
        nodes=tuple(_node(request, agent) for agent in leaders) if names_nodes else (),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, and nothing."""
    return build(
        request,
        "DescribeQuorumResponse",
        error_code=error_code,
        error_message=None,
        topics=(),
        nodes=(),
    )


def _quorum(
    context: "AgentContext", request: Any, leaders: Iterable[Agent], agents: Iterable[Agent]
) -> Any:
    voters = {agent.node_id for agent in leaders}
    return build(
        request,
        "PartitionData",
        partition_index=0,
        error_code=KafkaError.none,
        error_message="",
        leader_id=placement.controller(context),
        leader_epoch=LEADER_EPOCH,
        high_watermark=context.control.cluster.version,
        current_voters=tuple(_replica(context, request, node_id) for node_id in sorted(voters)),
        observers=tuple(
            _replica(context, request, agent.node_id)
            for agent in agents
            if agent.node_id not in voters
        ),
    )


def _unknown(request: Any, index: int) -> Any:
    return build(
        request,
        "PartitionData",
        partition_index=index,
        error_code=KafkaError.unknown_topic_or_partition,
        error_message=_UNKNOWN,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )


def _replica(context: "AgentContext", request: Any, node_id: int) -> Any:
    now_ms = context.clock.now_ms()
    return build(
        request,
        "ReplicaState",
        replica_id=node_id,
        replica_directory_id=None,
        log_end_offset=context.control.cluster.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _node(request: Any, agent: Agent) -> Any:
    listener = build(request, "Listener", name="CONTROLLER", host=agent.host, port=agent.port)
    return build(request, "Node", node_id=agent.node_id, listeners=(listener,))


API = Api(
    key=55,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes="one voter, the agent that names itself the controller; the others are observers",
)
