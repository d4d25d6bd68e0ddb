"""DescribeQuorum v0-v2 (KIP-595, KIP-836, KIP-853): sent by `kafka-metadata-quorum describe`.

The control plane is not a Raft quorum of brokers, but is presented as one. The single voter is the agent named as the
controller; the other agents are observers that have caught up. Offsets are versions of the cluster's metadata. A topic
or partition other than __cluster_metadata-0 returns UNKNOWN_TOPIC_OR_PARTITION.
"""

from lacuna.agent import placement
from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.messages.describe_quorum import (
    DESCRIBE_QUORUM_REQUEST,
    DESCRIBE_QUORUM_RESPONSE,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

METADATA_TOPIC = "__cluster_metadata"
LEADER_EPOCH = 1
_UNKNOWN = "This server does not host this topic-partition."


async def handle(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Answer from the view of the cluster."""
    context = call.context
    await view_with(context)
    wanted = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic.topic_name,
                [
                    _partition(context, topic.topic_name, each.partition_index)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        nodes=_nodes(context) if (METADATA_TOPIC, 0) in wanted else (),
    )


def _partition(context: AgentContext, name: str, index: int) -> DescribeQuorumResponsePartitionData:
    if (name, index) != (METADATA_TOPIC, 0):
        return DescribeQuorumResponsePartitionData(
            index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
        )
    leader = placement.controller(context)
    node_ids = [agent.node_id for agent in placement.live_agents(context)]
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        high_watermark=context.control.cluster.version,
        current_voters=[_replica(context, each) for each in node_ids if each == leader],
        observers=[_replica(context, each) for each in node_ids if each != leader],
    )


def _replica(context: AgentContext, node_id: int) -> ReplicaState:
    now_ms = context.clock.now_ms()
    return ReplicaState(
        replica_id=node_id,
        log_end_offset=context.control.cluster.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _nodes(context: AgentContext) -> list[Node]:
    """Return the address of the voter, or nothing if it is not live."""
    leader = placement.controller(context)
    return [_node(each) for each in placement.live_agents(context) if each.node_id == leader]


def _node(agent: Agent) -> Node:
    return Node(agent.node_id, [Listener("CONTROLLER", agent.host, agent.port)])


API = Api(
    request=DESCRIBE_QUORUM_REQUEST,
    response=DESCRIBE_QUORUM_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=error_in(DESCRIBE_QUORUM_RESPONSE),
    guard=on_cluster(Operation.DESCRIBE),
    notes="one voter, the agent that names itself the controller; the others are observers",
)
