"""DescribeQuorum v0-v2 (KIP-595, KIP-836, KIP-853): answers `kafka-metadata-quorum describe`.

The control plane is not a Raft quorum of brokers, but the answer presents it as one. The single voter is the agent
named as the controller, and the other agents are observers that have caught up. Offsets are versions of the cluster's
metadata. A topic or partition other than __cluster_metadata-0 returns UNKNOWN_TOPIC_OR_PARTITION.

UpdateFeatures v0-v2 (KIP-584, KIP-778): features cannot be changed.

Setting a feature to its current level succeeds. Any other level, an unknown feature or an unknown upgrade type returns
INVALID_UPDATE_VERSION for the whole request, as in Kafka. So does a downgrade, since the existing state could not be
read at a lower level.

UnregisterBroker v0 (KIP-500): always returns an error, since a stopped agent leaves the cluster by itself.

The node id of a live agent returns INVALID_REQUEST, and any other id returns BROKER_ID_NOT_REGISTERED.
"""

from lacuna.agent import placement
from lacuna.agent.api import Api, Call
from lacuna.agent.apis.k18_api_versions import FEATURES
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.messages import cluster as wire

METADATA_TOPIC = "__cluster_metadata"
LEADER_EPOCH = 1
_UNKNOWN = "This server does not host this topic-partition."


async def describe(call: Call, request: wire.DescribeQuorumRequest) -> wire.DescribeQuorumResponse:
    context = call.context
    await view_with(context)
    wanted = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    return wire.DescribeQuorumResponse(
        topics=[
            wire.DescribeQuorumResponseTopicData(
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


def _partition(
    context: AgentContext, name: str, index: int
) -> wire.DescribeQuorumResponsePartitionData:
    if (name, index) != (METADATA_TOPIC, 0):
        return wire.DescribeQuorumResponsePartitionData(
            index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
        )
    leader = placement.controller(context)
    node_ids = [agent.node_id for agent in placement.live_agents(context)]
    return wire.DescribeQuorumResponsePartitionData(
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        high_watermark=context.control.cluster.version,
        current_voters=[_replica(context, each) for each in node_ids if each == leader],
        observers=[_replica(context, each) for each in node_ids if each != leader],
    )


def _replica(context: AgentContext, node_id: int) -> wire.ReplicaState:
    now_ms = context.clock.now_ms()
    return wire.ReplicaState(
        replica_id=node_id,
        log_end_offset=context.control.cluster.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _nodes(context: AgentContext) -> list[wire.Node]:
    """Return the voter's node with its address, or an empty list if the voter is not live."""
    leader = placement.controller(context)
    return [_node(each) for each in placement.live_agents(context) if each.node_id == leader]


def _node(agent: Agent) -> wire.Node:
    return wire.Node(agent.node_id, [wire.Listener("CONTROLLER", agent.host, agent.port)])


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_FAILED = "The update failed for all features since the following feature had an error: "


async def update(_call: Call, request: wire.UpdateFeaturesRequest) -> wire.UpdateFeaturesResponse:
    for update in request.feature_updates:
        problem = _problem(update)
        if problem:
            return wire.UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=_FAILED + problem
            )
    return wire.UpdateFeaturesResponse(
        error_message=None,
        results=[
            wire.UpdatableFeatureResult(update.feature, ErrorCode.NONE, "NONE")
            for update in request.feature_updates
        ],
    )


def _problem(update: wire.FeatureUpdateKey) -> str:
    wanted, name = update.max_version_level, shorten(update.feature)
    says = f"Invalid update version {wanted} for feature {name}."
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{says} The controller does not support the given upgrade type."
    if update.feature not in FEATURES:
        return f"{says} This feature is not supported here."
    if wanted != FEATURES[update.feature]:
        return f"{says} It is at level {FEATURES[update.feature]}, which cannot be changed."
    return ""


async def unregister(
    call: Call, request: wire.UnregisterBrokerRequest
) -> wire.UnregisterBrokerResponse:
    await view_with(call.context)
    if any(agent.node_id == request.broker_id for agent in placement.live_agents(call.context)):
        return wire.UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=(
                f"Agent {request.broker_id} is running. Stop it, and it will leave the cluster "
                "when its lease expires."
            ),
        )
    return wire.UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )


APIS = (
    Api(
        request=wire.DESCRIBE_QUORUM_REQUEST,
        response=wire.DESCRIBE_QUORUM_RESPONSE,
        handle=describe,
        guard=on_cluster(Operation.DESCRIBE),
        notes="one voter, the agent that reports itself as the controller; the others are observers",
    ),
    Api(
        request=wire.UPDATE_FEATURES_REQUEST,
        response=wire.UPDATE_FEATURES_RESPONSE,
        handle=update,
        guard=on_cluster(Operation.ALTER),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="features keep their levels; any other level returns INVALID_UPDATE_VERSION",
    ),
    Api(
        request=wire.UNREGISTER_BROKER_REQUEST,
        response=wire.UNREGISTER_BROKER_RESPONSE,
        handle=unregister,
        guard=on_cluster(Operation.ALTER),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="a stopped agent leaves the cluster by itself",
    ),
)
