from google.protobuf import descriptor_pb2 as _descriptor_pb2
from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from lacuna.controlplane.v1 import consumer_groups_pb2 as _consumer_groups_pb2
from lacuna.controlplane.v1 import groups_pb2 as _groups_pb2
from lacuna.controlplane.v1 import internal_pb2 as _internal_pb2
from lacuna.controlplane.v1 import log_pb2 as _log_pb2
from lacuna.controlplane.v1 import security_pb2 as _security_pb2
from lacuna.controlplane.v1 import share_pb2 as _share_pb2
from lacuna.controlplane.v1 import transactions_pb2 as _transactions_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
AGAIN_FIELD_NUMBER: _ClassVar[int]
again: _descriptor.FieldDescriptor
IS_LARGE_FIELD_NUMBER: _ClassVar[int]
is_large: _descriptor.FieldDescriptor

class StatusRequest(_message.Message):
    __slots__ = ("standby",)
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    standby: Standby
    def __init__(self, standby: _Optional[_Union[Standby, _Mapping]] = ...) -> None: ...

class ControlPlaneStatus(_message.Message):
    __slots__ = ("is_leader", "leader", "epoch", "position", "standbys", "pending_records", "backlog", "is_time_doubtful", "clocks_ahead_ms", "journal", "disk_free_bytes", "disk_bytes")
    IS_LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    STANDBYS_FIELD_NUMBER: _ClassVar[int]
    PENDING_RECORDS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    IS_TIME_DOUBTFUL_FIELD_NUMBER: _ClassVar[int]
    CLOCKS_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    is_leader: bool
    leader: str
    epoch: int
    position: int
    standbys: _containers.RepeatedCompositeFieldContainer[Standby]
    pending_records: int
    backlog: int
    is_time_doubtful: bool
    clocks_ahead_ms: int
    journal: str
    disk_free_bytes: int
    disk_bytes: int
    def __init__(self, is_leader: _Optional[bool] = ..., leader: _Optional[str] = ..., epoch: _Optional[int] = ..., position: _Optional[int] = ..., standbys: _Optional[_Iterable[_Union[Standby, _Mapping]]] = ..., pending_records: _Optional[int] = ..., backlog: _Optional[int] = ..., is_time_doubtful: _Optional[bool] = ..., clocks_ahead_ms: _Optional[int] = ..., journal: _Optional[str] = ..., disk_free_bytes: _Optional[int] = ..., disk_bytes: _Optional[int] = ...) -> None: ...

class Standby(_message.Message):
    __slots__ = ("address", "position")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    address: str
    position: int
    def __init__(self, address: _Optional[str] = ..., position: _Optional[int] = ...) -> None: ...

class Contract(_message.Message):
    __slots__ = ("newest", "oldest")
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    newest: int
    oldest: int
    def __init__(self, newest: _Optional[int] = ..., oldest: _Optional[int] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("commands", "subscribe", "unsubscribe", "contract")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    subscribe: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    unsubscribe: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    contract: Contract
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., subscribe: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., unsubscribe: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., contract: _Optional[_Union[Contract, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("partitions", "cluster", "replies", "journal_position", "not_leader", "contract", "epoch")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_POSITION_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_log_pb2.PartitionDelta]
    cluster: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.ClusterDelta]
    replies: _containers.RepeatedCompositeFieldContainer[Reply]
    journal_position: int
    not_leader: NotLeader
    contract: Contract
    epoch: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[_log_pb2.PartitionDelta, _Mapping]]] = ..., cluster: _Optional[_Iterable[_Union[_cluster_pb2.ClusterDelta, _Mapping]]] = ..., replies: _Optional[_Iterable[_Union[Reply, _Mapping]]] = ..., journal_position: _Optional[int] = ..., not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., contract: _Optional[_Union[Contract, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class AgentQuestion(_message.Message):
    __slots__ = ("session", "wants_places", "wants_health")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WANTS_PLACES_FIELD_NUMBER: _ClassVar[int]
    WANTS_HEALTH_FIELD_NUMBER: _ClassVar[int]
    session: SessionRequest
    wants_places: bool
    wants_health: bool
    def __init__(self, session: _Optional[_Union[SessionRequest, _Mapping]] = ..., wants_places: _Optional[bool] = ..., wants_health: _Optional[bool] = ...) -> None: ...

class AgentAnswer(_message.Message):
    __slots__ = ("session", "places", "health")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    session: SessionResponse
    places: Places
    health: AgentHealth
    def __init__(self, session: _Optional[_Union[SessionResponse, _Mapping]] = ..., places: _Optional[_Union[Places, _Mapping]] = ..., health: _Optional[_Union[AgentHealth, _Mapping]] = ...) -> None: ...

class Places(_message.Message):
    __slots__ = ("control", "store", "has_control_tls")
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    HAS_CONTROL_TLS_FIELD_NUMBER: _ClassVar[int]
    control: str
    store: str
    has_control_tls: bool
    def __init__(self, control: _Optional[str] = ..., store: _Optional[str] = ..., has_control_tls: _Optional[bool] = ...) -> None: ...

class AgentHealth(_message.Message):
    __slots__ = ("store", "control_planes", "weaknesses", "version")
    STORE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_PLANES_FIELD_NUMBER: _ClassVar[int]
    WEAKNESSES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    store: StoreProbe
    control_planes: _containers.RepeatedCompositeFieldContainer[AskedControlPlane]
    weaknesses: _containers.RepeatedScalarFieldContainer[str]
    version: str
    def __init__(self, store: _Optional[_Union[StoreProbe, _Mapping]] = ..., control_planes: _Optional[_Iterable[_Union[AskedControlPlane, _Mapping]]] = ..., weaknesses: _Optional[_Iterable[str]] = ..., version: _Optional[str] = ...) -> None: ...

class StoreProbe(_message.Message):
    __slots__ = ("put_seconds", "get_seconds", "problem")
    PUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GET_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    put_seconds: float
    get_seconds: float
    problem: str
    def __init__(self, put_seconds: _Optional[float] = ..., get_seconds: _Optional[float] = ..., problem: _Optional[str] = ...) -> None: ...

class AskedControlPlane(_message.Message):
    __slots__ = ("address", "status", "problem")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    address: str
    status: ControlPlaneStatus
    problem: str
    def __init__(self, address: _Optional[str] = ..., status: _Optional[_Union[ControlPlaneStatus, _Mapping]] = ..., problem: _Optional[str] = ...) -> None: ...

class NotLeader(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: str
    def __init__(self, leader: _Optional[str] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("command_id", "principal", "register_agent", "renew_lease", "release_lease", "create_topics", "delete_topics", "create_partitions", "alter_topic_configs", "open_lease", "describe_leases", "describe_cluster", "commit_segment", "read_partitions", "delete_records", "plan_merge", "swap_extents", "plan_collection", "filter_uncommitted", "confirm_collection", "pin_reads", "unpin_reads", "plan_compaction", "read_internal", "read_as_of", "read_histories", "read_cut", "describe_merges", "read_hot", "import_segment", "plan_cleaning", "plan_cleaning_range", "finish_cleaning", "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "abort_txn", "describe_producers", "describe_transactions", "list_transactions", "join_group", "sync_group", "heartbeat", "leave_group", "offset_commit", "txn_offset_commit", "offset_fetch", "describe_groups", "list_groups", "delete_groups", "consumer_group_heartbeat", "describe_consumer_groups", "delete_offsets", "alter_group_configs", "describe_group_configs", "share_group_heartbeat", "describe_share_groups", "share_records", "describe_share_offsets", "alter_share_offsets", "delete_share_offsets", "plan_dead_letters", "bury_records", "streams_group_heartbeat", "describe_streams_groups", "describe_topology", "alter_security", "share_quotas")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    REGISTER_AGENT_FIELD_NUMBER: _ClassVar[int]
    RENEW_LEASE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_LEASE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATE_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    OPEN_LEASE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_LEASES_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    READ_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DELETE_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PLAN_MERGE_FIELD_NUMBER: _ClassVar[int]
    SWAP_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    PLAN_COLLECTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_COLLECTION_FIELD_NUMBER: _ClassVar[int]
    PIN_READS_FIELD_NUMBER: _ClassVar[int]
    UNPIN_READS_FIELD_NUMBER: _ClassVar[int]
    PLAN_COMPACTION_FIELD_NUMBER: _ClassVar[int]
    READ_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    READ_AS_OF_FIELD_NUMBER: _ClassVar[int]
    READ_HISTORIES_FIELD_NUMBER: _ClassVar[int]
    READ_CUT_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_MERGES_FIELD_NUMBER: _ClassVar[int]
    READ_HOT_FIELD_NUMBER: _ClassVar[int]
    IMPORT_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    PLAN_CLEANING_FIELD_NUMBER: _ClassVar[int]
    PLAN_CLEANING_RANGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_CLEANING_FIELD_NUMBER: _ClassVar[int]
    INIT_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ADD_PARTITIONS_TO_TXN_FIELD_NUMBER: _ClassVar[int]
    ADD_OFFSETS_TO_TXN_FIELD_NUMBER: _ClassVar[int]
    END_TXN_FIELD_NUMBER: _ClassVar[int]
    ABORT_TXN_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    LIST_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    JOIN_GROUP_FIELD_NUMBER: _ClassVar[int]
    SYNC_GROUP_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COMMIT_FIELD_NUMBER: _ClassVar[int]
    TXN_OFFSET_COMMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FETCH_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    LIST_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DELETE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_CONSUMER_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DELETE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ALTER_GROUP_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_GROUP_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    SHARE_GROUP_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_SHARE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    SHARE_RECORDS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_SHARE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ALTER_SHARE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DELETE_SHARE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PLAN_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    BURY_RECORDS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_GROUP_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_STREAMS_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    ALTER_SECURITY_FIELD_NUMBER: _ClassVar[int]
    SHARE_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    command_id: int
    principal: str
    register_agent: _cluster_pb2.RegisterAgent
    renew_lease: _cluster_pb2.RenewLease
    release_lease: _cluster_pb2.ReleaseLease
    create_topics: _cluster_pb2.CreateTopics
    delete_topics: _cluster_pb2.DeleteTopics
    create_partitions: _cluster_pb2.CreatePartitions
    alter_topic_configs: _cluster_pb2.AlterTopicConfigs
    open_lease: _cluster_pb2.OpenLease
    describe_leases: _cluster_pb2.DescribeLeases
    describe_cluster: _cluster_pb2.DescribeCluster
    commit_segment: _log_pb2.CommitSegment
    read_partitions: _log_pb2.ReadPartitions
    delete_records: _log_pb2.DeleteRecords
    plan_merge: _log_pb2.PlanMerge
    swap_extents: _log_pb2.SwapExtents
    plan_collection: _log_pb2.PlanCollection
    filter_uncommitted: _log_pb2.FilterUncommitted
    confirm_collection: _log_pb2.ConfirmCollection
    pin_reads: _log_pb2.PinReads
    unpin_reads: _log_pb2.UnpinReads
    plan_compaction: _log_pb2.PlanCompaction
    read_internal: _internal_pb2.ReadInternal
    read_as_of: _log_pb2.ReadAsOf
    read_histories: _log_pb2.ReadPartitions
    read_cut: _log_pb2.ReadPartitions
    describe_merges: _log_pb2.DescribeMerges
    read_hot: _log_pb2.ReadHot
    import_segment: _log_pb2.ImportSegment
    plan_cleaning: _log_pb2.PlanCleaning
    plan_cleaning_range: _log_pb2.PlanCleaningRange
    finish_cleaning: _log_pb2.FinishCleaning
    init_producer_id: _transactions_pb2.InitProducerId
    add_partitions_to_txn: _transactions_pb2.AddPartitionsToTxn
    add_offsets_to_txn: _transactions_pb2.AddOffsetsToTxn
    end_txn: _transactions_pb2.EndTxn
    abort_txn: _transactions_pb2.AbortTxn
    describe_producers: _transactions_pb2.DescribeProducers
    describe_transactions: _transactions_pb2.DescribeTransactions
    list_transactions: _transactions_pb2.ListTransactions
    join_group: _groups_pb2.JoinGroup
    sync_group: _groups_pb2.SyncGroup
    heartbeat: _groups_pb2.Heartbeat
    leave_group: _groups_pb2.LeaveGroup
    offset_commit: _groups_pb2.OffsetCommit
    txn_offset_commit: _groups_pb2.TxnOffsetCommit
    offset_fetch: _groups_pb2.OffsetFetch
    describe_groups: _groups_pb2.DescribeGroups
    list_groups: _groups_pb2.ListGroups
    delete_groups: _groups_pb2.DeleteGroups
    consumer_group_heartbeat: _consumer_groups_pb2.ConsumerGroupHeartbeat
    describe_consumer_groups: _consumer_groups_pb2.DescribeConsumerGroups
    delete_offsets: _consumer_groups_pb2.DeleteOffsets
    alter_group_configs: _consumer_groups_pb2.AlterGroupConfigs
    describe_group_configs: _consumer_groups_pb2.DescribeGroupConfigs
    share_group_heartbeat: _consumer_groups_pb2.ConsumerGroupHeartbeat
    describe_share_groups: _consumer_groups_pb2.DescribeConsumerGroups
    share_records: _share_pb2.ShareRecords
    describe_share_offsets: _share_pb2.DescribeShareOffsets
    alter_share_offsets: _share_pb2.AlterShareOffsets
    delete_share_offsets: _share_pb2.DeleteShareOffsets
    plan_dead_letters: _share_pb2.PlanDeadLetters
    bury_records: _share_pb2.BuryRecords
    streams_group_heartbeat: _consumer_groups_pb2.StreamsGroupHeartbeat
    describe_streams_groups: _consumer_groups_pb2.DescribeConsumerGroups
    describe_topology: _consumer_groups_pb2.DescribeTopology
    alter_security: _security_pb2.AlterSecurity
    share_quotas: _security_pb2.ShareQuotas
    def __init__(self, command_id: _Optional[int] = ..., principal: _Optional[str] = ..., register_agent: _Optional[_Union[_cluster_pb2.RegisterAgent, _Mapping]] = ..., renew_lease: _Optional[_Union[_cluster_pb2.RenewLease, _Mapping]] = ..., release_lease: _Optional[_Union[_cluster_pb2.ReleaseLease, _Mapping]] = ..., create_topics: _Optional[_Union[_cluster_pb2.CreateTopics, _Mapping]] = ..., delete_topics: _Optional[_Union[_cluster_pb2.DeleteTopics, _Mapping]] = ..., create_partitions: _Optional[_Union[_cluster_pb2.CreatePartitions, _Mapping]] = ..., alter_topic_configs: _Optional[_Union[_cluster_pb2.AlterTopicConfigs, _Mapping]] = ..., open_lease: _Optional[_Union[_cluster_pb2.OpenLease, _Mapping]] = ..., describe_leases: _Optional[_Union[_cluster_pb2.DescribeLeases, _Mapping]] = ..., describe_cluster: _Optional[_Union[_cluster_pb2.DescribeCluster, _Mapping]] = ..., commit_segment: _Optional[_Union[_log_pb2.CommitSegment, _Mapping]] = ..., read_partitions: _Optional[_Union[_log_pb2.ReadPartitions, _Mapping]] = ..., delete_records: _Optional[_Union[_log_pb2.DeleteRecords, _Mapping]] = ..., plan_merge: _Optional[_Union[_log_pb2.PlanMerge, _Mapping]] = ..., swap_extents: _Optional[_Union[_log_pb2.SwapExtents, _Mapping]] = ..., plan_collection: _Optional[_Union[_log_pb2.PlanCollection, _Mapping]] = ..., filter_uncommitted: _Optional[_Union[_log_pb2.FilterUncommitted, _Mapping]] = ..., confirm_collection: _Optional[_Union[_log_pb2.ConfirmCollection, _Mapping]] = ..., pin_reads: _Optional[_Union[_log_pb2.PinReads, _Mapping]] = ..., unpin_reads: _Optional[_Union[_log_pb2.UnpinReads, _Mapping]] = ..., plan_compaction: _Optional[_Union[_log_pb2.PlanCompaction, _Mapping]] = ..., read_internal: _Optional[_Union[_internal_pb2.ReadInternal, _Mapping]] = ..., read_as_of: _Optional[_Union[_log_pb2.ReadAsOf, _Mapping]] = ..., read_histories: _Optional[_Union[_log_pb2.ReadPartitions, _Mapping]] = ..., read_cut: _Optional[_Union[_log_pb2.ReadPartitions, _Mapping]] = ..., describe_merges: _Optional[_Union[_log_pb2.DescribeMerges, _Mapping]] = ..., read_hot: _Optional[_Union[_log_pb2.ReadHot, _Mapping]] = ..., import_segment: _Optional[_Union[_log_pb2.ImportSegment, _Mapping]] = ..., plan_cleaning: _Optional[_Union[_log_pb2.PlanCleaning, _Mapping]] = ..., plan_cleaning_range: _Optional[_Union[_log_pb2.PlanCleaningRange, _Mapping]] = ..., finish_cleaning: _Optional[_Union[_log_pb2.FinishCleaning, _Mapping]] = ..., init_producer_id: _Optional[_Union[_transactions_pb2.InitProducerId, _Mapping]] = ..., add_partitions_to_txn: _Optional[_Union[_transactions_pb2.AddPartitionsToTxn, _Mapping]] = ..., add_offsets_to_txn: _Optional[_Union[_transactions_pb2.AddOffsetsToTxn, _Mapping]] = ..., end_txn: _Optional[_Union[_transactions_pb2.EndTxn, _Mapping]] = ..., abort_txn: _Optional[_Union[_transactions_pb2.AbortTxn, _Mapping]] = ..., describe_producers: _Optional[_Union[_transactions_pb2.DescribeProducers, _Mapping]] = ..., describe_transactions: _Optional[_Union[_transactions_pb2.DescribeTransactions, _Mapping]] = ..., list_transactions: _Optional[_Union[_transactions_pb2.ListTransactions, _Mapping]] = ..., join_group: _Optional[_Union[_groups_pb2.JoinGroup, _Mapping]] = ..., sync_group: _Optional[_Union[_groups_pb2.SyncGroup, _Mapping]] = ..., heartbeat: _Optional[_Union[_groups_pb2.Heartbeat, _Mapping]] = ..., leave_group: _Optional[_Union[_groups_pb2.LeaveGroup, _Mapping]] = ..., offset_commit: _Optional[_Union[_groups_pb2.OffsetCommit, _Mapping]] = ..., txn_offset_commit: _Optional[_Union[_groups_pb2.TxnOffsetCommit, _Mapping]] = ..., offset_fetch: _Optional[_Union[_groups_pb2.OffsetFetch, _Mapping]] = ..., describe_groups: _Optional[_Union[_groups_pb2.DescribeGroups, _Mapping]] = ..., list_groups: _Optional[_Union[_groups_pb2.ListGroups, _Mapping]] = ..., delete_groups: _Optional[_Union[_groups_pb2.DeleteGroups, _Mapping]] = ..., consumer_group_heartbeat: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupHeartbeat, _Mapping]] = ..., describe_consumer_groups: _Optional[_Union[_consumer_groups_pb2.DescribeConsumerGroups, _Mapping]] = ..., delete_offsets: _Optional[_Union[_consumer_groups_pb2.DeleteOffsets, _Mapping]] = ..., alter_group_configs: _Optional[_Union[_consumer_groups_pb2.AlterGroupConfigs, _Mapping]] = ..., describe_group_configs: _Optional[_Union[_consumer_groups_pb2.DescribeGroupConfigs, _Mapping]] = ..., share_group_heartbeat: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupHeartbeat, _Mapping]] = ..., describe_share_groups: _Optional[_Union[_consumer_groups_pb2.DescribeConsumerGroups, _Mapping]] = ..., share_records: _Optional[_Union[_share_pb2.ShareRecords, _Mapping]] = ..., describe_share_offsets: _Optional[_Union[_share_pb2.DescribeShareOffsets, _Mapping]] = ..., alter_share_offsets: _Optional[_Union[_share_pb2.AlterShareOffsets, _Mapping]] = ..., delete_share_offsets: _Optional[_Union[_share_pb2.DeleteShareOffsets, _Mapping]] = ..., plan_dead_letters: _Optional[_Union[_share_pb2.PlanDeadLetters, _Mapping]] = ..., bury_records: _Optional[_Union[_share_pb2.BuryRecords, _Mapping]] = ..., streams_group_heartbeat: _Optional[_Union[_consumer_groups_pb2.StreamsGroupHeartbeat, _Mapping]] = ..., describe_streams_groups: _Optional[_Union[_consumer_groups_pb2.DescribeConsumerGroups, _Mapping]] = ..., describe_topology: _Optional[_Union[_consumer_groups_pb2.DescribeTopology, _Mapping]] = ..., alter_security: _Optional[_Union[_security_pb2.AlterSecurity, _Mapping]] = ..., share_quotas: _Optional[_Union[_security_pb2.ShareQuotas, _Mapping]] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("command_id", "failure", "agent_registered", "lease_renewed", "lease_released", "topics_created", "topics_deleted", "partitions_created", "topic_configs_altered", "lease_opened", "leases_described", "cluster_described", "segment_committed", "partitions_read", "records_deleted", "merge_plan", "extents_swapped", "collection_plan", "uncommitted_filtered", "collection_confirmed", "reads_pinned", "reads_unpinned", "compaction_plan", "internal_read", "as_of_read", "cut_read", "histories_read", "merges_described", "hot_read", "cleaning_plan", "cleaning_range", "cleaning_finished", "producer_id_initialized", "partitions_added_to_txn", "offsets_added_to_txn", "txn_ended", "txn_aborted", "producers_described", "transactions_described", "transactions_listed", "group_joined", "group_synced", "heartbeat_answered", "group_left", "offsets_committed", "offsets_fetched", "groups_described", "groups_listed", "groups_deleted", "consumer_group_heartbeat_answered", "consumer_groups_described", "offsets_deleted", "group_configs_altered", "group_configs_described", "share_group_heartbeat_answered", "share_groups_described", "records_shared", "share_offsets_described", "share_offsets_altered", "share_offsets_deleted", "dead_letters_planned", "streams_group_heartbeat_answered", "streams_groups_described", "topology_described", "security_altered", "quotas_shared")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    AGENT_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    LEASE_RENEWED_FIELD_NUMBER: _ClassVar[int]
    LEASE_RELEASED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_DELETED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_CONFIGS_ALTERED_FIELD_NUMBER: _ClassVar[int]
    LEASE_OPENED_FIELD_NUMBER: _ClassVar[int]
    LEASES_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_READ_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DELETED_FIELD_NUMBER: _ClassVar[int]
    MERGE_PLAN_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_SWAPPED_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_PLAN_FIELD_NUMBER: _ClassVar[int]
    UNCOMMITTED_FILTERED_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    READS_PINNED_FIELD_NUMBER: _ClassVar[int]
    READS_UNPINNED_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_PLAN_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_READ_FIELD_NUMBER: _ClassVar[int]
    AS_OF_READ_FIELD_NUMBER: _ClassVar[int]
    CUT_READ_FIELD_NUMBER: _ClassVar[int]
    HISTORIES_READ_FIELD_NUMBER: _ClassVar[int]
    MERGES_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    HOT_READ_FIELD_NUMBER: _ClassVar[int]
    CLEANING_PLAN_FIELD_NUMBER: _ClassVar[int]
    CLEANING_RANGE_FIELD_NUMBER: _ClassVar[int]
    CLEANING_FINISHED_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_ADDED_TO_TXN_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_ADDED_TO_TXN_FIELD_NUMBER: _ClassVar[int]
    TXN_ENDED_FIELD_NUMBER: _ClassVar[int]
    TXN_ABORTED_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_LISTED_FIELD_NUMBER: _ClassVar[int]
    GROUP_JOINED_FIELD_NUMBER: _ClassVar[int]
    GROUP_SYNCED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    GROUP_LEFT_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FETCHED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LISTED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_DELETED_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_HEARTBEAT_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUPS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_DELETED_FIELD_NUMBER: _ClassVar[int]
    GROUP_CONFIGS_ALTERED_FIELD_NUMBER: _ClassVar[int]
    GROUP_CONFIGS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    SHARE_GROUP_HEARTBEAT_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    SHARE_GROUPS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_SHARED_FIELD_NUMBER: _ClassVar[int]
    SHARE_OFFSETS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    SHARE_OFFSETS_ALTERED_FIELD_NUMBER: _ClassVar[int]
    SHARE_OFFSETS_DELETED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_PLANNED_FIELD_NUMBER: _ClassVar[int]
    STREAMS_GROUP_HEARTBEAT_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    STREAMS_GROUPS_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    SECURITY_ALTERED_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_SHARED_FIELD_NUMBER: _ClassVar[int]
    command_id: int
    failure: Failure
    agent_registered: _cluster_pb2.AgentRegistered
    lease_renewed: _cluster_pb2.LeaseRenewed
    lease_released: _cluster_pb2.Outcome
    topics_created: _cluster_pb2.TopicResults
    topics_deleted: _cluster_pb2.TopicResults
    partitions_created: _cluster_pb2.TopicResults
    topic_configs_altered: _cluster_pb2.Outcome
    lease_opened: _cluster_pb2.LeaseOpened
    leases_described: _cluster_pb2.LeasesDescribed
    cluster_described: _cluster_pb2.ClusterDescribed
    segment_committed: _log_pb2.SegmentCommitted
    partitions_read: _log_pb2.PartitionsRead
    records_deleted: _log_pb2.PartitionsRead
    merge_plan: _log_pb2.MergePlan
    extents_swapped: _cluster_pb2.Outcomes
    collection_plan: _log_pb2.CollectionPlan
    uncommitted_filtered: _log_pb2.UncommittedFiltered
    collection_confirmed: _cluster_pb2.Outcome
    reads_pinned: _log_pb2.ReadsPinned
    reads_unpinned: _cluster_pb2.Outcome
    compaction_plan: _log_pb2.CompactionPlan
    internal_read: _internal_pb2.InternalRead
    as_of_read: _log_pb2.AsOfRead
    cut_read: _log_pb2.CutRead
    histories_read: _log_pb2.HistoriesRead
    merges_described: _log_pb2.MergesDescribed
    hot_read: _log_pb2.HotRead
    cleaning_plan: _log_pb2.CleaningPlan
    cleaning_range: _log_pb2.CleaningRange
    cleaning_finished: _cluster_pb2.Outcome
    producer_id_initialized: _transactions_pb2.ProducerIdentity
    partitions_added_to_txn: _cluster_pb2.Outcomes
    offsets_added_to_txn: _cluster_pb2.Outcome
    txn_ended: _transactions_pb2.ProducerIdentity
    txn_aborted: _cluster_pb2.Outcome
    producers_described: _transactions_pb2.ProducersDescribed
    transactions_described: _transactions_pb2.TransactionsDescribed
    transactions_listed: _transactions_pb2.TransactionsListed
    group_joined: _groups_pb2.GroupJoined
    group_synced: _groups_pb2.GroupSynced
    heartbeat_answered: _cluster_pb2.Outcome
    group_left: _cluster_pb2.Outcomes
    offsets_committed: _cluster_pb2.Outcomes
    offsets_fetched: _groups_pb2.OffsetsFetched
    groups_described: _groups_pb2.GroupsDescribed
    groups_listed: _groups_pb2.GroupsListed
    groups_deleted: _groups_pb2.GroupsDeleted
    consumer_group_heartbeat_answered: _consumer_groups_pb2.ConsumerGroupHeartbeatAnswered
    consumer_groups_described: _consumer_groups_pb2.ConsumerGroupsDescribed
    offsets_deleted: _cluster_pb2.Outcomes
    group_configs_altered: _cluster_pb2.Outcome
    group_configs_described: _consumer_groups_pb2.GroupConfigsDescribed
    share_group_heartbeat_answered: _consumer_groups_pb2.ConsumerGroupHeartbeatAnswered
    share_groups_described: _consumer_groups_pb2.ConsumerGroupsDescribed
    records_shared: _share_pb2.RecordsShared
    share_offsets_described: _share_pb2.ShareOffsetsDescribed
    share_offsets_altered: _share_pb2.ShareOffsetsChanged
    share_offsets_deleted: _share_pb2.ShareOffsetsChanged
    dead_letters_planned: _share_pb2.DeadLettersPlanned
    streams_group_heartbeat_answered: _consumer_groups_pb2.StreamsGroupHeartbeatAnswered
    streams_groups_described: _consumer_groups_pb2.StreamsGroupsDescribed
    topology_described: _cluster_pb2.Outcome
    security_altered: _cluster_pb2.Outcome
    quotas_shared: _security_pb2.QuotasShared
    def __init__(self, command_id: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., agent_registered: _Optional[_Union[_cluster_pb2.AgentRegistered, _Mapping]] = ..., lease_renewed: _Optional[_Union[_cluster_pb2.LeaseRenewed, _Mapping]] = ..., lease_released: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., topics_created: _Optional[_Union[_cluster_pb2.TopicResults, _Mapping]] = ..., topics_deleted: _Optional[_Union[_cluster_pb2.TopicResults, _Mapping]] = ..., partitions_created: _Optional[_Union[_cluster_pb2.TopicResults, _Mapping]] = ..., topic_configs_altered: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., lease_opened: _Optional[_Union[_cluster_pb2.LeaseOpened, _Mapping]] = ..., leases_described: _Optional[_Union[_cluster_pb2.LeasesDescribed, _Mapping]] = ..., cluster_described: _Optional[_Union[_cluster_pb2.ClusterDescribed, _Mapping]] = ..., segment_committed: _Optional[_Union[_log_pb2.SegmentCommitted, _Mapping]] = ..., partitions_read: _Optional[_Union[_log_pb2.PartitionsRead, _Mapping]] = ..., records_deleted: _Optional[_Union[_log_pb2.PartitionsRead, _Mapping]] = ..., merge_plan: _Optional[_Union[_log_pb2.MergePlan, _Mapping]] = ..., extents_swapped: _Optional[_Union[_cluster_pb2.Outcomes, _Mapping]] = ..., collection_plan: _Optional[_Union[_log_pb2.CollectionPlan, _Mapping]] = ..., uncommitted_filtered: _Optional[_Union[_log_pb2.UncommittedFiltered, _Mapping]] = ..., collection_confirmed: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., reads_pinned: _Optional[_Union[_log_pb2.ReadsPinned, _Mapping]] = ..., reads_unpinned: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., compaction_plan: _Optional[_Union[_log_pb2.CompactionPlan, _Mapping]] = ..., internal_read: _Optional[_Union[_internal_pb2.InternalRead, _Mapping]] = ..., as_of_read: _Optional[_Union[_log_pb2.AsOfRead, _Mapping]] = ..., cut_read: _Optional[_Union[_log_pb2.CutRead, _Mapping]] = ..., histories_read: _Optional[_Union[_log_pb2.HistoriesRead, _Mapping]] = ..., merges_described: _Optional[_Union[_log_pb2.MergesDescribed, _Mapping]] = ..., hot_read: _Optional[_Union[_log_pb2.HotRead, _Mapping]] = ..., cleaning_plan: _Optional[_Union[_log_pb2.CleaningPlan, _Mapping]] = ..., cleaning_range: _Optional[_Union[_log_pb2.CleaningRange, _Mapping]] = ..., cleaning_finished: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., producer_id_initialized: _Optional[_Union[_transactions_pb2.ProducerIdentity, _Mapping]] = ..., partitions_added_to_txn: _Optional[_Union[_cluster_pb2.Outcomes, _Mapping]] = ..., offsets_added_to_txn: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., txn_ended: _Optional[_Union[_transactions_pb2.ProducerIdentity, _Mapping]] = ..., txn_aborted: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., producers_described: _Optional[_Union[_transactions_pb2.ProducersDescribed, _Mapping]] = ..., transactions_described: _Optional[_Union[_transactions_pb2.TransactionsDescribed, _Mapping]] = ..., transactions_listed: _Optional[_Union[_transactions_pb2.TransactionsListed, _Mapping]] = ..., group_joined: _Optional[_Union[_groups_pb2.GroupJoined, _Mapping]] = ..., group_synced: _Optional[_Union[_groups_pb2.GroupSynced, _Mapping]] = ..., heartbeat_answered: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., group_left: _Optional[_Union[_cluster_pb2.Outcomes, _Mapping]] = ..., offsets_committed: _Optional[_Union[_cluster_pb2.Outcomes, _Mapping]] = ..., offsets_fetched: _Optional[_Union[_groups_pb2.OffsetsFetched, _Mapping]] = ..., groups_described: _Optional[_Union[_groups_pb2.GroupsDescribed, _Mapping]] = ..., groups_listed: _Optional[_Union[_groups_pb2.GroupsListed, _Mapping]] = ..., groups_deleted: _Optional[_Union[_groups_pb2.GroupsDeleted, _Mapping]] = ..., consumer_group_heartbeat_answered: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupHeartbeatAnswered, _Mapping]] = ..., consumer_groups_described: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupsDescribed, _Mapping]] = ..., offsets_deleted: _Optional[_Union[_cluster_pb2.Outcomes, _Mapping]] = ..., group_configs_altered: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., group_configs_described: _Optional[_Union[_consumer_groups_pb2.GroupConfigsDescribed, _Mapping]] = ..., share_group_heartbeat_answered: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupHeartbeatAnswered, _Mapping]] = ..., share_groups_described: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupsDescribed, _Mapping]] = ..., records_shared: _Optional[_Union[_share_pb2.RecordsShared, _Mapping]] = ..., share_offsets_described: _Optional[_Union[_share_pb2.ShareOffsetsDescribed, _Mapping]] = ..., share_offsets_altered: _Optional[_Union[_share_pb2.ShareOffsetsChanged, _Mapping]] = ..., share_offsets_deleted: _Optional[_Union[_share_pb2.ShareOffsetsChanged, _Mapping]] = ..., dead_letters_planned: _Optional[_Union[_share_pb2.DeadLettersPlanned, _Mapping]] = ..., streams_group_heartbeat_answered: _Optional[_Union[_consumer_groups_pb2.StreamsGroupHeartbeatAnswered, _Mapping]] = ..., streams_groups_described: _Optional[_Union[_consumer_groups_pb2.StreamsGroupsDescribed, _Mapping]] = ..., topology_described: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., security_altered: _Optional[_Union[_cluster_pb2.Outcome, _Mapping]] = ..., quotas_shared: _Optional[_Union[_security_pb2.QuotasShared, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("error_code", "message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    message: str
    def __init__(self, error_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: str
    def __init__(self, service: _Optional[str] = ...) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("status",)
    class ServingStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[HealthCheckResponse.ServingStatus]
        SERVING: _ClassVar[HealthCheckResponse.ServingStatus]
        NOT_SERVING: _ClassVar[HealthCheckResponse.ServingStatus]
        SERVICE_UNKNOWN: _ClassVar[HealthCheckResponse.ServingStatus]
    UNKNOWN: HealthCheckResponse.ServingStatus
    SERVING: HealthCheckResponse.ServingStatus
    NOT_SERVING: HealthCheckResponse.ServingStatus
    SERVICE_UNKNOWN: HealthCheckResponse.ServingStatus
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: HealthCheckResponse.ServingStatus
    def __init__(self, status: _Optional[_Union[HealthCheckResponse.ServingStatus, str]] = ...) -> None: ...
