"""Topics. Written by lacuna.wire.generator, not by hand."""

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
    Uuid,
    messages,
)


class CreatePartitionsAssignment(NamedTuple):
    broker_ids: Sequence[Int32] = ()


class CreatePartitionsTopic(NamedTuple):
    name: String = ""
    count_: Int32 = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


class CreatePartitionsRequest(NamedTuple):
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(NamedTuple):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult] = ()


class CreatableReplicaAssignment(NamedTuple):
    partition_index: Int32 = 0
    broker_ids: Sequence[Int32] = ()


class CreatableTopicConfig(NamedTuple):
    name: String = ""
    value: String | None = ""


class CreatableTopic(NamedTuple):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


class CreateTopicsRequest(NamedTuple):
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, In(since=1)] = False


class CreatableTopicConfigs(NamedTuple):
    name: Annotated[String, In(since=5)] = ""
    value: Annotated[String | None, In(since=5)] = ""
    read_only: Annotated[Bool, In(since=5)] = False
    config_source: Annotated[Int8, In(since=5)] = -1
    is_sensitive: Annotated[Bool, In(since=5)] = False


class CreatableTopicResult(NamedTuple):
    name: String = ""
    topic_id: Annotated[Uuid, In(since=7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=1)] = ""
    topic_config_error_code: Annotated[Int16, In(since=5, tag=0)] = 0
    num_partitions: Annotated[Int32, In(since=5)] = -1
    replication_factor: Annotated[Int16, In(since=5)] = -1
    configs: Annotated[Sequence[CreatableTopicConfigs] | None, In(since=5)] = ()


class CreateTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[CreatableTopicResult] = ()


class DeleteRecordsPartition(NamedTuple):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


class DeleteRecordsRequest(NamedTuple):
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(NamedTuple):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


class DeleteRecordsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()


class DeleteTopicState(NamedTuple):
    name: Annotated[String | None, In(since=6)] = None
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID


class DeleteTopicsRequest(NamedTuple):
    topics: Annotated[Sequence[DeleteTopicState], In(since=6)] = ()
    topic_names: Annotated[Sequence[String], In(until=5)] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(NamedTuple):
    name: Annotated[String | None, In(null_since=6)] = ""
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=5)] = None


class DeleteTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    responses: Sequence[DeletableTopicResult] = ()


class TopicRequest(NamedTuple):
    name: String = ""


class Cursor(NamedTuple):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    eligible_leader_replicas: Sequence[Int32] | None = None
    last_known_elr: Sequence[Int32] | None = None
    offline_replicas: Sequence[Int32] = ()


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None


class MetadataRequestTopic(NamedTuple):
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    name: Annotated[String | None, In(null_since=10)] = ""


class MetadataRequest(NamedTuple):
    topics: Annotated[Sequence[MetadataRequestTopic] | None, In(null_since=1)] = ()
    allow_auto_topic_creation: Annotated[Bool, In(since=4)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(since=8, until=10)] = False
    include_topic_authorized_operations: Annotated[Bool, In(since=8)] = False


class MetadataResponseBroker(NamedTuple):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, In(since=1)] = None


class MetadataResponsePartition(NamedTuple):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(since=7)] = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    offline_replicas: Annotated[Sequence[Int32], In(since=5)] = ()


class MetadataResponseTopic(NamedTuple):
    error_code: Int16 = 0
    name: Annotated[String | None, In(null_since=12)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    is_internal: Annotated[Bool, In(since=1)] = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: Annotated[Int32, In(since=8)] = -2147483648


class MetadataResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=3)] = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: Annotated[String | None, In(since=2)] = None
    controller_id: Annotated[Int32, In(since=1)] = -1
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: Annotated[Int32, In(since=8, until=10)] = -2147483648
    error_code: Annotated[Int16, In(since=13)] = 0


CREATE_PARTITIONS_REQUEST, CREATE_PARTITIONS_RESPONSE = messages(
    CreatePartitionsRequest, CreatePartitionsResponse, api_key=37, versions=(0, 3), first_flexible=2
)

CREATE_TOPICS_REQUEST, CREATE_TOPICS_RESPONSE = messages(
    CreateTopicsRequest, CreateTopicsResponse, api_key=19, versions=(0, 7), first_flexible=5
)

DELETE_RECORDS_REQUEST, DELETE_RECORDS_RESPONSE = messages(
    DeleteRecordsRequest, DeleteRecordsResponse, api_key=21, versions=(0, 2), first_flexible=2
)

DELETE_TOPICS_REQUEST, DELETE_TOPICS_RESPONSE = messages(
    DeleteTopicsRequest, DeleteTopicsResponse, api_key=20, versions=(0, 6), first_flexible=4
)

DESCRIBE_TOPIC_PARTITIONS_REQUEST, DESCRIBE_TOPIC_PARTITIONS_RESPONSE = messages(
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    api_key=75,
    versions=(0, 0),
    first_flexible=0,
)

METADATA_REQUEST, METADATA_RESPONSE = messages(
    MetadataRequest, MetadataResponse, api_key=3, versions=(0, 13), first_flexible=9
)
