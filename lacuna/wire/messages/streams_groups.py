"""Streams groups. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, Int64, String, Uint16, messages


class StreamsGroupDescribeRequest(NamedTuple):
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False
    include_topology_description: Annotated[Bool, In(since=1)] = False


class KeyValue(NamedTuple):
    key: String = ""
    value: String = ""


class TopicInfo(NamedTuple):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Sequence[KeyValue] = ()


class Subtopology(NamedTuple):
    subtopology_id: String = ""
    source_topics: Sequence[String] = ()
    repartition_sink_topics: Sequence[String] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()


class Topology(NamedTuple):
    epoch: Int32 = 0
    subtopologies: Sequence[Subtopology] | None = None


class Endpoint(NamedTuple):
    host: String = ""
    port: Uint16 = 0


class TaskOffset(NamedTuple):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class TaskIds(NamedTuple):
    subtopology_id: String = ""
    partitions: Sequence[Int32] = ()


class Assignment(NamedTuple):
    active_tasks: Sequence[TaskIds] = ()
    standby_tasks: Sequence[TaskIds] = ()
    warmup_tasks: Sequence[TaskIds] = ()


class Member(NamedTuple):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] = ()
    task_offsets: Sequence[TaskOffset] = ()
    task_end_offsets: Sequence[TaskOffset] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: Bool = False


class TopologyDescriptionNode(NamedTuple):
    name: Annotated[String, In(since=1)] = ""
    node_type: Annotated[Int8, In(since=1)] = 0
    source_topics: Annotated[Sequence[String], In(since=1)] = ()
    sink_topic: Annotated[String | None, In(since=1)] = None
    stores: Annotated[Sequence[String], In(since=1)] = ()
    successors: Annotated[Sequence[String], In(since=1)] = ()


class TopologyDescriptionSubtopology(NamedTuple):
    subtopology_id: Annotated[String, In(since=1)] = ""
    nodes: Annotated[Sequence[TopologyDescriptionNode], In(since=1)] = ()


class TopologyDescriptionGlobalStore(NamedTuple):
    source: Annotated[TopologyDescriptionNode, In(since=1)] = TopologyDescriptionNode()
    processor: Annotated[TopologyDescriptionNode, In(since=1)] = TopologyDescriptionNode()


class TopologyDescription(NamedTuple):
    subtopologies: Annotated[Sequence[TopologyDescriptionSubtopology], In(since=1)] = ()
    global_stores: Annotated[Sequence[TopologyDescriptionGlobalStore], In(since=1)] = ()


class DescribedGroup(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: Sequence[Member] = ()
    authorized_operations: Int32 = -2147483648
    topology_description: Annotated[TopologyDescription | None, In(since=1)] = None
    topology_description_status: Annotated[Int8, In(since=1)] = 0
    assignor_name: Annotated[String | None, In(since=1)] = None


class StreamsGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()


class CopartitionGroup(NamedTuple):
    source_topics: Sequence[Int16] = ()
    source_topic_regex: Sequence[Int16] = ()
    repartition_source_topics: Sequence[Int16] = ()


class StreamsGroupHeartbeatRequestSubtopology(NamedTuple):
    subtopology_id: String = ""
    source_topics: Sequence[String] = ()
    source_topic_regex: Sequence[String] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_sink_topics: Sequence[String] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()
    copartition_groups: Sequence[CopartitionGroup] = ()


class StreamsGroupHeartbeatRequestTopology(NamedTuple):
    epoch: Int32 = 0
    subtopologies: Sequence[StreamsGroupHeartbeatRequestSubtopology] = ()


class StreamsGroupHeartbeatRequest(NamedTuple):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: StreamsGroupHeartbeatRequestTopology | None = None
    active_tasks: Sequence[TaskIds] | None = None
    standby_tasks: Sequence[TaskIds] | None = None
    warmup_tasks: Sequence[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] | None = None
    task_offsets: Sequence[TaskOffset] | None = None
    task_end_offsets: Sequence[TaskOffset] | None = None
    shutdown_application: Bool = False


class Status(NamedTuple):
    status_code: Int8 = 0
    status_detail: String = ""


class TopicPartition(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class EndpointToPartitions(NamedTuple):
    user_endpoint: Endpoint = Endpoint()
    active_partitions: Sequence[TopicPartition] = ()
    standby_partitions: Sequence[TopicPartition] = ()


class StreamsGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Annotated[Int32, In(until=0)] = 0
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Annotated[Int64, In(since=1)] = -1
    status: Sequence[Status] | None = ()
    active_tasks: Sequence[TaskIds] | None = None
    standby_tasks: Sequence[TaskIds] | None = None
    warmup_tasks: Sequence[TaskIds] | None = None
    topology_description_required: Annotated[Bool, In(since=1)] = False
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = None


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode(NamedTuple):
    name: String = ""
    node_type: Int8 = 0
    source_topics: Sequence[String] = ()
    sink_topic: String | None = None
    stores: Sequence[String] = ()
    successors: Sequence[String] = ()


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology(NamedTuple):
    subtopology_id: String = ""
    nodes: Sequence[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode] = ()


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore(NamedTuple):
    source: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = (
        StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode()
    )
    processor: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = (
        StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode()
    )


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription(NamedTuple):
    subtopologies: Sequence[
        StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology
    ] = ()
    global_stores: Sequence[
        StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore
    ] = ()


class StreamsGroupTopologyDescriptionUpdateRequest(NamedTuple):
    group_id: String = ""
    member_id: String = ""
    topology_epoch: Int32 = 0
    topology_description: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription = (
        StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription()
    )


class StreamsGroupTopologyDescriptionUpdateResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


STREAMS_GROUP_DESCRIBE_REQUEST, STREAMS_GROUP_DESCRIBE_RESPONSE = messages(
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    api_key=89,
    versions=(0, 1),
    first_flexible=0,
)

STREAMS_GROUP_HEARTBEAT_REQUEST, STREAMS_GROUP_HEARTBEAT_RESPONSE = messages(
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    api_key=88,
    versions=(0, 1),
    first_flexible=0,
)

(
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_REQUEST,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE_RESPONSE,
) = messages(
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    api_key=93,
    versions=(0, 0),
    first_flexible=0,
)
