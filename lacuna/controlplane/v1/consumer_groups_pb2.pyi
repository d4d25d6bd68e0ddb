from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from lacuna.controlplane.v1 import groups_pb2 as _groups_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicIdPartitions(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumerGroupHeartbeat(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "group_instance_id", "rack_id", "rebalance_timeout_ms", "has_topic_names", "topic_names", "topic_regex", "server_assignor", "has_owned", "owned", "client_id", "client_host", "needs_member_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_TOPIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    SERVER_ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    HAS_OWNED_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    NEEDS_MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    group_instance_id: str
    rack_id: str
    rebalance_timeout_ms: int
    has_topic_names: bool
    topic_names: _containers.RepeatedScalarFieldContainer[str]
    topic_regex: str
    server_assignor: str
    has_owned: bool
    owned: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    client_id: str
    client_host: str
    needs_member_id: bool
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., group_instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., has_topic_names: _Optional[bool] = ..., topic_names: _Optional[_Iterable[str]] = ..., topic_regex: _Optional[str] = ..., server_assignor: _Optional[str] = ..., has_owned: _Optional[bool] = ..., owned: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., needs_member_id: _Optional[bool] = ...) -> None: ...

class ConsumerGroupHeartbeatAnswered(_message.Message):
    __slots__ = ("error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "has_assignment", "assignment")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    has_assignment: bool
    assignment: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., has_assignment: _Optional[bool] = ..., assignment: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ...) -> None: ...

class DescribeConsumerGroups(_message.Message):
    __slots__ = ("group_ids",)
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribedConsumerMember(_message.Message):
    __slots__ = ("member_id", "group_instance_id", "rack_id", "member_epoch", "client_id", "client_host", "topic_names", "topic_regex", "assignment", "target", "is_classic")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    IS_CLASSIC_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    group_instance_id: str
    rack_id: str
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: _containers.RepeatedScalarFieldContainer[str]
    topic_regex: str
    assignment: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    target: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    is_classic: bool
    def __init__(self, member_id: _Optional[str] = ..., group_instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., topic_names: _Optional[_Iterable[str]] = ..., topic_regex: _Optional[str] = ..., assignment: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ..., target: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ..., is_classic: _Optional[bool] = ...) -> None: ...

class DescribedConsumerGroup(_message.Message):
    __slots__ = ("error_code", "error_message", "group_id", "state", "group_epoch", "assignment_epoch", "assignor", "members")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: _containers.RepeatedCompositeFieldContainer[DescribedConsumerMember]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., group_id: _Optional[str] = ..., state: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., assignor: _Optional[str] = ..., members: _Optional[_Iterable[_Union[DescribedConsumerMember, _Mapping]]] = ...) -> None: ...

class ConsumerGroupsDescribed(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DescribedConsumerGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[DescribedConsumerGroup, _Mapping]]] = ...) -> None: ...

class DeleteOffsets(_message.Message):
    __slots__ = ("group_id", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class GroupConfigs(_message.Message):
    __slots__ = ("group_id", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    configs: _containers.ScalarMap[str, str]
    def __init__(self, group_id: _Optional[str] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AlterGroupConfigs(_message.Message):
    __slots__ = ("group_id", "changes", "validate_only", "replaces_all")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REPLACES_ALL_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    changes: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.ConfigChange]
    validate_only: bool
    replaces_all: bool
    def __init__(self, group_id: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[_cluster_pb2.ConfigChange, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., replaces_all: _Optional[bool] = ...) -> None: ...

class DescribeGroupConfigs(_message.Message):
    __slots__ = ("group_ids", "all_groups", "after")
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_GROUPS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    all_groups: bool
    after: str
    def __init__(self, group_ids: _Optional[_Iterable[str]] = ..., all_groups: _Optional[bool] = ..., after: _Optional[str] = ...) -> None: ...

class GroupConfigsDescribed(_message.Message):
    __slots__ = ("groups", "next_after")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupConfigs]
    next_after: str
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupConfigs, _Mapping]]] = ..., next_after: _Optional[str] = ...) -> None: ...

class ClassicProtocol(_message.Message):
    __slots__ = ("session_timeout_ms", "protocols")
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    session_timeout_ms: int
    protocols: _containers.RepeatedCompositeFieldContainer[_groups_pb2.GroupProtocol]
    def __init__(self, session_timeout_ms: _Optional[int] = ..., protocols: _Optional[_Iterable[_Union[_groups_pb2.GroupProtocol, _Mapping]]] = ...) -> None: ...

class ConsumerSubscription(_message.Message):
    __slots__ = ("group_instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "server_assignor", "topic_names", "topic_regex", "classic")
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SERVER_ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    CLASSIC_FIELD_NUMBER: _ClassVar[int]
    group_instance_id: str
    rack_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    server_assignor: str
    topic_names: _containers.RepeatedScalarFieldContainer[str]
    topic_regex: str
    classic: ClassicProtocol
    def __init__(self, group_instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., server_assignor: _Optional[str] = ..., topic_names: _Optional[_Iterable[str]] = ..., topic_regex: _Optional[str] = ..., classic: _Optional[_Union[ClassicProtocol, _Mapping]] = ...) -> None: ...

class ConsumerTarget(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    def __init__(self, partitions: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ...) -> None: ...

class ConsumerCurrent(_message.Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned", "revoking", "taken_epoch", "taken_before")
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REVOKING_FIELD_NUMBER: _ClassVar[int]
    TAKEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BEFORE_FIELD_NUMBER: _ClassVar[int]
    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    revoking: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    taken_epoch: int
    taken_before: _containers.RepeatedCompositeFieldContainer[TakenBefore]
    def __init__(self, member_epoch: _Optional[int] = ..., previous_member_epoch: _Optional[int] = ..., state: _Optional[str] = ..., assigned: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ..., revoking: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ..., taken_epoch: _Optional[int] = ..., taken_before: _Optional[_Iterable[_Union[TakenBefore, _Mapping]]] = ...) -> None: ...

class TakenBefore(_message.Message):
    __slots__ = ("epoch", "partitions")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[TopicIdPartitions]
    def __init__(self, epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[TopicIdPartitions, _Mapping]]] = ...) -> None: ...

class ConsumerMember(_message.Message):
    __slots__ = ("member_id", "subscription", "target", "current")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    subscription: ConsumerSubscription
    target: ConsumerTarget
    current: ConsumerCurrent
    def __init__(self, member_id: _Optional[str] = ..., subscription: _Optional[_Union[ConsumerSubscription, _Mapping]] = ..., target: _Optional[_Union[ConsumerTarget, _Mapping]] = ..., current: _Optional[_Union[ConsumerCurrent, _Mapping]] = ...) -> None: ...

class ConsumerGroupStep(_message.Message):
    __slots__ = ("group_id", "group_epoch", "assignment_epoch", "removed_member_ids", "members", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REMOVED_MEMBER_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    group_epoch: int
    assignment_epoch: int
    removed_member_ids: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedCompositeFieldContainer[ConsumerMember]
    topics: _cluster_pb2.PartitionCounts
    def __init__(self, group_id: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., removed_member_ids: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[_Union[ConsumerMember, _Mapping]]] = ..., topics: _Optional[_Union[_cluster_pb2.PartitionCounts, _Mapping]] = ...) -> None: ...

class TaskIds(_message.Message):
    __slots__ = ("subtopology_id", "partitions", "epochs")
    SUBTOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    subtopology_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, subtopology_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamsTasks(_message.Message):
    __slots__ = ("active", "standby", "warmup")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    active: _containers.RepeatedCompositeFieldContainer[TaskIds]
    standby: _containers.RepeatedCompositeFieldContainer[TaskIds]
    warmup: _containers.RepeatedCompositeFieldContainer[TaskIds]
    def __init__(self, active: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ..., standby: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ..., warmup: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ...) -> None: ...

class InternalTopicInfo(_message.Message):
    __slots__ = ("name", "partition_count", "replication_factor", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition_count: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., partition_count: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CopartitionedTopics(_message.Message):
    __slots__ = ("source_topics", "repartition_source_topics")
    SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    source_topics: _containers.RepeatedScalarFieldContainer[int]
    repartition_source_topics: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, source_topics: _Optional[_Iterable[int]] = ..., repartition_source_topics: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamsSubtopology(_message.Message):
    __slots__ = ("subtopology_id", "source_topics", "repartition_sink_topics", "changelog_topics", "repartition_source_topics", "copartitioned")
    SUBTOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SINK_TOPICS_FIELD_NUMBER: _ClassVar[int]
    CHANGELOG_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    COPARTITIONED_FIELD_NUMBER: _ClassVar[int]
    subtopology_id: str
    source_topics: _containers.RepeatedScalarFieldContainer[str]
    repartition_sink_topics: _containers.RepeatedScalarFieldContainer[str]
    changelog_topics: _containers.RepeatedCompositeFieldContainer[InternalTopicInfo]
    repartition_source_topics: _containers.RepeatedCompositeFieldContainer[InternalTopicInfo]
    copartitioned: _containers.RepeatedCompositeFieldContainer[CopartitionedTopics]
    def __init__(self, subtopology_id: _Optional[str] = ..., source_topics: _Optional[_Iterable[str]] = ..., repartition_sink_topics: _Optional[_Iterable[str]] = ..., changelog_topics: _Optional[_Iterable[_Union[InternalTopicInfo, _Mapping]]] = ..., repartition_source_topics: _Optional[_Iterable[_Union[InternalTopicInfo, _Mapping]]] = ..., copartitioned: _Optional[_Iterable[_Union[CopartitionedTopics, _Mapping]]] = ...) -> None: ...

class StreamsTopology(_message.Message):
    __slots__ = ("epoch", "subtopologies")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUBTOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    subtopologies: _containers.RepeatedCompositeFieldContainer[StreamsSubtopology]
    def __init__(self, epoch: _Optional[int] = ..., subtopologies: _Optional[_Iterable[_Union[StreamsSubtopology, _Mapping]]] = ...) -> None: ...

class StreamsEndpoint(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class TaskOffset(_message.Message):
    __slots__ = ("subtopology_id", "partition", "offset")
    SUBTOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    subtopology_id: str
    partition: int
    offset: int
    def __init__(self, subtopology_id: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class StreamsGroupHeartbeat(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "group_instance_id", "rack_id", "rebalance_timeout_ms", "topology", "has_owned", "owned", "process_id", "endpoint", "has_client_tags", "client_tags", "task_offsets", "task_end_offsets", "shuts_down", "endpoint_epoch", "client_id", "client_host", "knows_tags")
    class ClientTagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    HAS_OWNED_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    HAS_CLIENT_TAGS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TAGS_FIELD_NUMBER: _ClassVar[int]
    TASK_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TASK_END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    SHUTS_DOWN_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    KNOWS_TAGS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    group_instance_id: str
    rack_id: str
    rebalance_timeout_ms: int
    topology: StreamsTopology
    has_owned: bool
    owned: StreamsTasks
    process_id: str
    endpoint: StreamsEndpoint
    has_client_tags: bool
    client_tags: _containers.ScalarMap[str, str]
    task_offsets: _containers.RepeatedCompositeFieldContainer[TaskOffset]
    task_end_offsets: _containers.RepeatedCompositeFieldContainer[TaskOffset]
    shuts_down: bool
    endpoint_epoch: int
    client_id: str
    client_host: str
    knows_tags: bool
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., group_instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., topology: _Optional[_Union[StreamsTopology, _Mapping]] = ..., has_owned: _Optional[bool] = ..., owned: _Optional[_Union[StreamsTasks, _Mapping]] = ..., process_id: _Optional[str] = ..., endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., has_client_tags: _Optional[bool] = ..., client_tags: _Optional[_Mapping[str, str]] = ..., task_offsets: _Optional[_Iterable[_Union[TaskOffset, _Mapping]]] = ..., task_end_offsets: _Optional[_Iterable[_Union[TaskOffset, _Mapping]]] = ..., shuts_down: _Optional[bool] = ..., endpoint_epoch: _Optional[int] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., knows_tags: _Optional[bool] = ...) -> None: ...

class StreamsStatus(_message.Message):
    __slots__ = ("code", "detail")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    code: int
    detail: str
    def __init__(self, code: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class TopicNamePartitions(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class EndpointPartitions(_message.Message):
    __slots__ = ("endpoint", "active", "standby")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    endpoint: StreamsEndpoint
    active: _containers.RepeatedCompositeFieldContainer[TopicNamePartitions]
    standby: _containers.RepeatedCompositeFieldContainer[TopicNamePartitions]
    def __init__(self, endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., active: _Optional[_Iterable[_Union[TopicNamePartitions, _Mapping]]] = ..., standby: _Optional[_Iterable[_Union[TopicNamePartitions, _Mapping]]] = ...) -> None: ...

class StreamsGroupHeartbeatAnswered(_message.Message):
    __slots__ = ("error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "task_offset_interval_ms", "acceptable_recovery_lag", "statuses", "has_tasks", "tasks", "endpoint_epoch", "has_endpoints", "endpoints", "missing_topics", "wants_description")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    TASK_OFFSET_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTABLE_RECOVERY_LAG_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    HAS_TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HAS_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    MISSING_TOPICS_FIELD_NUMBER: _ClassVar[int]
    WANTS_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    statuses: _containers.RepeatedCompositeFieldContainer[StreamsStatus]
    has_tasks: bool
    tasks: StreamsTasks
    endpoint_epoch: int
    has_endpoints: bool
    endpoints: _containers.RepeatedCompositeFieldContainer[EndpointPartitions]
    missing_topics: _containers.RepeatedCompositeFieldContainer[InternalTopicInfo]
    wants_description: bool
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., task_offset_interval_ms: _Optional[int] = ..., acceptable_recovery_lag: _Optional[int] = ..., statuses: _Optional[_Iterable[_Union[StreamsStatus, _Mapping]]] = ..., has_tasks: _Optional[bool] = ..., tasks: _Optional[_Union[StreamsTasks, _Mapping]] = ..., endpoint_epoch: _Optional[int] = ..., has_endpoints: _Optional[bool] = ..., endpoints: _Optional[_Iterable[_Union[EndpointPartitions, _Mapping]]] = ..., missing_topics: _Optional[_Iterable[_Union[InternalTopicInfo, _Mapping]]] = ..., wants_description: _Optional[bool] = ...) -> None: ...

class DescribedStreamsMember(_message.Message):
    __slots__ = ("member_id", "metadata", "member_epoch", "assigned", "target", "task_offsets", "task_end_offsets")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TASK_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TASK_END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    metadata: StreamsMetadata
    member_epoch: int
    assigned: StreamsTasks
    target: StreamsTasks
    task_offsets: _containers.RepeatedCompositeFieldContainer[TaskOffset]
    task_end_offsets: _containers.RepeatedCompositeFieldContainer[TaskOffset]
    def __init__(self, member_id: _Optional[str] = ..., metadata: _Optional[_Union[StreamsMetadata, _Mapping]] = ..., member_epoch: _Optional[int] = ..., assigned: _Optional[_Union[StreamsTasks, _Mapping]] = ..., target: _Optional[_Union[StreamsTasks, _Mapping]] = ..., task_offsets: _Optional[_Iterable[_Union[TaskOffset, _Mapping]]] = ..., task_end_offsets: _Optional[_Iterable[_Union[TaskOffset, _Mapping]]] = ...) -> None: ...

class DescribedStreamsGroup(_message.Message):
    __slots__ = ("error_code", "error_message", "group_id", "state", "group_epoch", "assignment_epoch", "topology", "members", "assignor", "description")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology: StreamsTopology
    members: _containers.RepeatedCompositeFieldContainer[DescribedStreamsMember]
    assignor: str
    description: bytes
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., group_id: _Optional[str] = ..., state: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., topology: _Optional[_Union[StreamsTopology, _Mapping]] = ..., members: _Optional[_Iterable[_Union[DescribedStreamsMember, _Mapping]]] = ..., assignor: _Optional[str] = ..., description: _Optional[bytes] = ...) -> None: ...

class StreamsGroupsDescribed(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DescribedStreamsGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[DescribedStreamsGroup, _Mapping]]] = ...) -> None: ...

class DescribeTopology(_message.Message):
    __slots__ = ("group_id", "member_id", "topology_epoch", "description")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    topology_epoch: int
    description: bytes
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., topology_epoch: _Optional[int] = ..., description: _Optional[bytes] = ...) -> None: ...

class StreamsMetadata(_message.Message):
    __slots__ = ("group_instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id", "endpoint", "client_tags")
    class ClientTagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TAGS_FIELD_NUMBER: _ClassVar[int]
    group_instance_id: str
    rack_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    endpoint: StreamsEndpoint
    client_tags: _containers.ScalarMap[str, str]
    def __init__(self, group_instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., topology_epoch: _Optional[int] = ..., process_id: _Optional[str] = ..., endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., client_tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StreamsCurrent(_message.Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned", "revoking")
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REVOKING_FIELD_NUMBER: _ClassVar[int]
    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned: StreamsTasks
    revoking: StreamsTasks
    def __init__(self, member_epoch: _Optional[int] = ..., previous_member_epoch: _Optional[int] = ..., state: _Optional[str] = ..., assigned: _Optional[_Union[StreamsTasks, _Mapping]] = ..., revoking: _Optional[_Union[StreamsTasks, _Mapping]] = ...) -> None: ...

class StreamsMember(_message.Message):
    __slots__ = ("member_id", "metadata", "target", "current")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    metadata: StreamsMetadata
    target: StreamsTasks
    current: StreamsCurrent
    def __init__(self, member_id: _Optional[str] = ..., metadata: _Optional[_Union[StreamsMetadata, _Mapping]] = ..., target: _Optional[_Union[StreamsTasks, _Mapping]] = ..., current: _Optional[_Union[StreamsCurrent, _Mapping]] = ...) -> None: ...

class DescribedTopology(_message.Message):
    __slots__ = ("topology_epoch", "description")
    TOPOLOGY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    topology_epoch: int
    description: bytes
    def __init__(self, topology_epoch: _Optional[int] = ..., description: _Optional[bytes] = ...) -> None: ...

class StreamsGroupStep(_message.Message):
    __slots__ = ("group_id", "group_epoch", "assignment_epoch", "validated_epoch", "endpoint_epoch", "shut_down_by", "standby_count", "rack_tags", "removed_member_ids", "members", "topics", "topology", "described")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    VALIDATED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHUT_DOWN_BY_FIELD_NUMBER: _ClassVar[int]
    STANDBY_COUNT_FIELD_NUMBER: _ClassVar[int]
    RACK_TAGS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_MEMBER_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    group_epoch: int
    assignment_epoch: int
    validated_epoch: int
    endpoint_epoch: int
    shut_down_by: str
    standby_count: int
    rack_tags: str
    removed_member_ids: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedCompositeFieldContainer[StreamsMember]
    topics: _cluster_pb2.PartitionCounts
    topology: StreamsTopology
    described: DescribedTopology
    def __init__(self, group_id: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., validated_epoch: _Optional[int] = ..., endpoint_epoch: _Optional[int] = ..., shut_down_by: _Optional[str] = ..., standby_count: _Optional[int] = ..., rack_tags: _Optional[str] = ..., removed_member_ids: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[_Union[StreamsMember, _Mapping]]] = ..., topics: _Optional[_Union[_cluster_pb2.PartitionCounts, _Mapping]] = ..., topology: _Optional[_Union[StreamsTopology, _Mapping]] = ..., described: _Optional[_Union[DescribedTopology, _Mapping]] = ...) -> None: ...
