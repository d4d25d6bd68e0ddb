"""Cluster. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import (
    ZERO_UUID,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    messages,
)


class ReassignablePartition(NamedTuple):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] | None = None


class ReassignableTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[ReassignablePartition] = ()


class AlterPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, In(since=1)] = True
    topics: Sequence[ReassignableTopic] = ()


class ReassignablePartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


class AlterPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, In(since=1)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()


class AlterReplicaLogDirTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[Int32] = ()


class AlterReplicaLogDir(NamedTuple):
    path: String = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


class AlterReplicaLogDirsRequest(NamedTuple):
    dirs: Sequence[AlterReplicaLogDir] = ()


class AlterReplicaLogDirPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


class AlterReplicaLogDirsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()


class ApiVersionsRequest(NamedTuple):
    client_software_name: Annotated[String, In(since=3)] = ""
    client_software_version: Annotated[String, In(since=3)] = ""
    cluster_id: Annotated[String | None, In(since=5)] = None
    node_id: Annotated[Int32, In(since=5)] = -1


class ApiVersion(NamedTuple):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(NamedTuple):
    name: Annotated[String, In(since=3)] = ""
    min_version: Annotated[Int16, In(since=3)] = 0
    max_version: Annotated[Int16, In(since=3)] = 0


class FinalizedFeatureKey(NamedTuple):
    name: Annotated[String, In(since=3)] = ""
    max_version_level: Annotated[Int16, In(since=3)] = 0
    min_version_level: Annotated[Int16, In(since=3)] = 0


class ApiVersionsResponse(NamedTuple):
    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    supported_features: Annotated[Sequence[SupportedFeatureKey], In(since=3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, In(since=3, tag=1)] = -1
    finalized_features: Annotated[Sequence[FinalizedFeatureKey], In(since=3, tag=2)] = ()
    zk_migration_ready: Annotated[Bool, In(since=3, tag=3)] = False


class DescribeClusterRequest(NamedTuple):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, In(since=1)] = 1
    include_fenced_brokers: Annotated[Bool, In(since=2)] = False


class DescribeClusterBroker(NamedTuple):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, In(since=2)] = False


class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, In(since=1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: Int32 = -2147483648


class DescribableLogDirTopic(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class DescribeLogDirsRequest(NamedTuple):
    topics: Sequence[DescribableLogDirTopic] | None = ()


class DescribeLogDirsPartition(NamedTuple):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


class DescribeLogDirsResult(NamedTuple):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: Annotated[Int64, In(since=4)] = -1
    usable_bytes: Annotated[Int64, In(since=4)] = -1
    is_cordoned: Annotated[Bool, In(since=5)] = False


class DescribeLogDirsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(since=3)] = 0
    results: Sequence[DescribeLogDirsResult] = ()


class PartitionData(NamedTuple):
    partition_index: Int32 = 0


class TopicData(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[PartitionData] = ()


class DescribeQuorumRequest(NamedTuple):
    topics: Sequence[TopicData] = ()


class ReplicaState(NamedTuple):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(since=2)] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, In(since=1)] = -1
    last_caught_up_timestamp: Annotated[Int64, In(since=1)] = -1


class DescribeQuorumResponsePartitionData(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class DescribeQuorumResponseTopicData(NamedTuple):
    topic_name: String = ""
    partitions: Sequence[DescribeQuorumResponsePartitionData] = ()


class Listener(NamedTuple):
    name: Annotated[String, In(since=2)] = ""
    host: Annotated[String, In(since=2)] = ""
    port: Annotated[Uint16, In(since=2)] = 0


class Node(NamedTuple):
    node_id: Annotated[Int32, In(since=2)] = 0
    listeners: Annotated[Sequence[Listener], In(since=2)] = ()


class DescribeQuorumResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=2)] = ""
    topics: Sequence[DescribeQuorumResponseTopicData] = ()
    nodes: Annotated[Sequence[Node], In(since=2)] = ()


class TopicPartitions(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class ElectLeadersRequest(NamedTuple):
    election_type: Annotated[Int8, In(since=1)] = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: Int32 = 60000


class PartitionResult(NamedTuple):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(NamedTuple):
    topic: String = ""
    partition_result: Sequence[PartitionResult] = ()


class ElectLeadersResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(since=1)] = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()


class ListPartitionReassignmentsTopics(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class ListPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(NamedTuple):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] = ()
    adding_replicas: Sequence[Int32] = ()
    removing_replicas: Sequence[Int32] = ()


class OngoingTopicReassignment(NamedTuple):
    name: String = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


class ListPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()


class UnregisterBrokerRequest(NamedTuple):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FeatureUpdateKey(NamedTuple):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, In(until=0)] = False
    upgrade_type: Annotated[Int8, In(since=1)] = 1


class UpdateFeaturesRequest(NamedTuple):
    timeout_ms: Int32 = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: Annotated[Bool, In(since=1)] = False


class UpdatableFeatureResult(NamedTuple):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[Sequence[UpdatableFeatureResult], In(until=1)] = ()


ALTER_PARTITION_REASSIGNMENTS_REQUEST, ALTER_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    api_key=45,
    versions=(0, 1),
    first_flexible=0,
)

ALTER_REPLICA_LOG_DIRS_REQUEST, ALTER_REPLICA_LOG_DIRS_RESPONSE = messages(
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    api_key=34,
    versions=(0, 2),
    first_flexible=2,
)

API_VERSIONS_REQUEST, API_VERSIONS_RESPONSE = messages(
    ApiVersionsRequest, ApiVersionsResponse, api_key=18, versions=(0, 5), first_flexible=3
)

DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE = messages(
    DescribeClusterRequest, DescribeClusterResponse, api_key=60, versions=(0, 2), first_flexible=0
)

DESCRIBE_LOG_DIRS_REQUEST, DESCRIBE_LOG_DIRS_RESPONSE = messages(
    DescribeLogDirsRequest, DescribeLogDirsResponse, api_key=35, versions=(0, 5), first_flexible=2
)

DESCRIBE_QUORUM_REQUEST, DESCRIBE_QUORUM_RESPONSE = messages(
    DescribeQuorumRequest, DescribeQuorumResponse, api_key=55, versions=(0, 2), first_flexible=0
)

ELECT_LEADERS_REQUEST, ELECT_LEADERS_RESPONSE = messages(
    ElectLeadersRequest, ElectLeadersResponse, api_key=43, versions=(0, 2), first_flexible=2
)

LIST_PARTITION_REASSIGNMENTS_REQUEST, LIST_PARTITION_REASSIGNMENTS_RESPONSE = messages(
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    api_key=46,
    versions=(0, 0),
    first_flexible=0,
)

UNREGISTER_BROKER_REQUEST, UNREGISTER_BROKER_RESPONSE = messages(
    UnregisterBrokerRequest, UnregisterBrokerResponse, api_key=64, versions=(0, 0), first_flexible=0
)

UPDATE_FEATURES_REQUEST, UPDATE_FEATURES_RESPONSE = messages(
    UpdateFeaturesRequest, UpdateFeaturesResponse, api_key=57, versions=(0, 2), first_flexible=0
)
