from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from lacuna.controlplane.v1 import group_records_pb2 as _group_records_pb2
from lacuna.controlplane.v1 import log_pb2 as _log_pb2
from lacuna.controlplane.v1 import security_pb2 as _security_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseSnapshot(_message.Message):
    __slots__ = ("lease_id", "node_id", "forgotten_sequence", "recent_sequences", "recent_verdicts", "duration_ms")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECENT_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    RECENT_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    node_id: int
    forgotten_sequence: int
    recent_sequences: _containers.RepeatedScalarFieldContainer[int]
    recent_verdicts: _containers.RepeatedCompositeFieldContainer[_log_pb2.SegmentCommitted]
    duration_ms: int
    def __init__(self, lease_id: _Optional[int] = ..., node_id: _Optional[int] = ..., forgotten_sequence: _Optional[int] = ..., recent_sequences: _Optional[_Iterable[int]] = ..., recent_verdicts: _Optional[_Iterable[_Union[_log_pb2.SegmentCommitted, _Mapping]]] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class PartitionSnapshot(_message.Message):
    __slots__ = ("partition", "version", "log_start_offset", "high_watermark", "extents", "dead_first_offsets", "dead_end_offsets", "producer_ids", "producer_epochs", "last_timestamps", "last_used_ms", "batch_counts", "base_sequences", "last_sequences", "base_offsets", "append_times", "ongoing_producer_ids", "ongoing_first_offsets", "compacted_to", "compact_again_ms", "vacated_to", "history", "next_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIRST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DEAD_END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
    BATCH_COUNTS_FIELD_NUMBER: _ClassVar[int]
    BASE_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIMES_FIELD_NUMBER: _ClassVar[int]
    ONGOING_PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    ONGOING_FIRST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_TO_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    VACATED_TO_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    NEXT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    version: int
    log_start_offset: int
    high_watermark: int
    extents: _log_pb2.Extents
    dead_first_offsets: _containers.RepeatedScalarFieldContainer[int]
    dead_end_offsets: _containers.RepeatedScalarFieldContainer[int]
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    producer_epochs: _containers.RepeatedScalarFieldContainer[int]
    last_timestamps: _containers.RepeatedScalarFieldContainer[int]
    last_used_ms: _containers.RepeatedScalarFieldContainer[int]
    batch_counts: _containers.RepeatedScalarFieldContainer[int]
    base_sequences: _containers.RepeatedScalarFieldContainer[int]
    last_sequences: _containers.RepeatedScalarFieldContainer[int]
    base_offsets: _containers.RepeatedScalarFieldContainer[int]
    append_times: _containers.RepeatedScalarFieldContainer[int]
    ongoing_producer_ids: _containers.RepeatedScalarFieldContainer[int]
    ongoing_first_offsets: _containers.RepeatedScalarFieldContainer[int]
    compacted_to: int
    compact_again_ms: int
    vacated_to: int
    history: _log_pb2.StableHistory
    next_epoch: int
    def __init__(self, partition: _Optional[int] = ..., version: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., extents: _Optional[_Union[_log_pb2.Extents, _Mapping]] = ..., dead_first_offsets: _Optional[_Iterable[int]] = ..., dead_end_offsets: _Optional[_Iterable[int]] = ..., producer_ids: _Optional[_Iterable[int]] = ..., producer_epochs: _Optional[_Iterable[int]] = ..., last_timestamps: _Optional[_Iterable[int]] = ..., last_used_ms: _Optional[_Iterable[int]] = ..., batch_counts: _Optional[_Iterable[int]] = ..., base_sequences: _Optional[_Iterable[int]] = ..., last_sequences: _Optional[_Iterable[int]] = ..., base_offsets: _Optional[_Iterable[int]] = ..., append_times: _Optional[_Iterable[int]] = ..., ongoing_producer_ids: _Optional[_Iterable[int]] = ..., ongoing_first_offsets: _Optional[_Iterable[int]] = ..., compacted_to: _Optional[int] = ..., compact_again_ms: _Optional[int] = ..., vacated_to: _Optional[int] = ..., history: _Optional[_Union[_log_pb2.StableHistory, _Mapping]] = ..., next_epoch: _Optional[int] = ...) -> None: ...

class TopicSnapshot(_message.Message):
    __slots__ = ("topic", "partitions", "principal")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    topic: _cluster_pb2.Topic
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionSnapshot]
    principal: str
    def __init__(self, topic: _Optional[_Union[_cluster_pb2.Topic, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionSnapshot, _Mapping]]] = ..., principal: _Optional[str] = ...) -> None: ...

class TransactionPartitionSnapshot(_message.Message):
    __slots__ = ("partition", "ranges")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    ranges: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., ranges: _Optional[_Iterable[int]] = ...) -> None: ...

class TransactionalIdSnapshot(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "last_producer_epoch", "previous_producer_id", "transaction_timeout_ms", "state", "transaction", "start_time_ms", "last_update_ms", "ended_producer_id", "ended_producer_epoch", "is_ended_by_coordinator", "partitions", "group_ids", "log_offset", "principal")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_ENDED_BY_COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    previous_producer_id: int
    transaction_timeout_ms: int
    state: str
    transaction: int
    start_time_ms: int
    last_update_ms: int
    ended_producer_id: int
    ended_producer_epoch: int
    is_ended_by_coordinator: bool
    partitions: _containers.RepeatedCompositeFieldContainer[TransactionPartitionSnapshot]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    log_offset: int
    principal: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., last_producer_epoch: _Optional[int] = ..., previous_producer_id: _Optional[int] = ..., transaction_timeout_ms: _Optional[int] = ..., state: _Optional[str] = ..., transaction: _Optional[int] = ..., start_time_ms: _Optional[int] = ..., last_update_ms: _Optional[int] = ..., ended_producer_id: _Optional[int] = ..., ended_producer_epoch: _Optional[int] = ..., is_ended_by_coordinator: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[TransactionPartitionSnapshot, _Mapping]]] = ..., group_ids: _Optional[_Iterable[str]] = ..., log_offset: _Optional[int] = ..., principal: _Optional[str] = ...) -> None: ...

class UnsettledSnapshot(_message.Message):
    __slots__ = ("transaction", "partitions")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    partitions: _containers.RepeatedCompositeFieldContainer[TransactionPartitionSnapshot]
    def __init__(self, transaction: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[TransactionPartitionSnapshot, _Mapping]]] = ...) -> None: ...

class PastCutSnapshot(_message.Message):
    __slots__ = ("second", "partitions", "ends")
    SECOND_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    second: int
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    ends: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, second: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., ends: _Optional[_Iterable[int]] = ...) -> None: ...

class SegmentsSnapshot(_message.Message):
    __slots__ = ("lease_ids", "sequences", "object_sizes", "live_extents", "releasing_lease_ids", "releasing_sequences", "replaced_lease_ids", "replaced_sequences", "replaced_ms")
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZES_FIELD_NUMBER: _ClassVar[int]
    LIVE_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    RELEASING_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    RELEASING_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    REPLACED_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    REPLACED_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    REPLACED_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    object_sizes: _containers.RepeatedScalarFieldContainer[int]
    live_extents: _containers.RepeatedScalarFieldContainer[int]
    releasing_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    releasing_sequences: _containers.RepeatedScalarFieldContainer[int]
    replaced_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    replaced_sequences: _containers.RepeatedScalarFieldContainer[int]
    replaced_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_ids: _Optional[_Iterable[int]] = ..., sequences: _Optional[_Iterable[int]] = ..., object_sizes: _Optional[_Iterable[int]] = ..., live_extents: _Optional[_Iterable[int]] = ..., releasing_lease_ids: _Optional[_Iterable[int]] = ..., releasing_sequences: _Optional[_Iterable[int]] = ..., replaced_lease_ids: _Optional[_Iterable[int]] = ..., replaced_sequences: _Optional[_Iterable[int]] = ..., replaced_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class PinsSnapshot(_message.Message):
    __slots__ = ("pin_ids", "starts_ms", "ends_ms")
    PIN_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTS_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_MS_FIELD_NUMBER: _ClassVar[int]
    pin_ids: _containers.RepeatedScalarFieldContainer[int]
    starts_ms: _containers.RepeatedScalarFieldContainer[int]
    ends_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, pin_ids: _Optional[_Iterable[int]] = ..., starts_ms: _Optional[_Iterable[int]] = ..., ends_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class StateSnapshot(_message.Message):
    __slots__ = ("cluster_id", "clock_ms", "cluster_version", "next_lease_id", "next_node_id", "next_producer_id", "next_transaction", "next_pin_id", "format_version", "nodes", "leases", "ended_lease_ids", "ended_lease_ms", "topics", "transactional_ids", "segments", "pins", "id_hours", "id_firsts", "security", "unsettled", "settle_at", "past_cuts", "past_cuts_from", "past_cuts_thinned_at", "groups")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    NEXT_PIN_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    ENDED_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    ENDED_LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    ID_HOURS_FIELD_NUMBER: _ClassVar[int]
    ID_FIRSTS_FIELD_NUMBER: _ClassVar[int]
    SECURITY_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    SETTLE_AT_FIELD_NUMBER: _ClassVar[int]
    PAST_CUTS_FIELD_NUMBER: _ClassVar[int]
    PAST_CUTS_FROM_FIELD_NUMBER: _ClassVar[int]
    PAST_CUTS_THINNED_AT_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    clock_ms: int
    cluster_version: int
    next_lease_id: int
    next_node_id: int
    next_producer_id: int
    next_transaction: int
    next_pin_id: int
    format_version: int
    nodes: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Agent]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseSnapshot]
    ended_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    ended_lease_ms: _containers.RepeatedScalarFieldContainer[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicSnapshot]
    transactional_ids: _containers.RepeatedCompositeFieldContainer[TransactionalIdSnapshot]
    segments: SegmentsSnapshot
    pins: PinsSnapshot
    id_hours: _containers.RepeatedScalarFieldContainer[int]
    id_firsts: _containers.RepeatedScalarFieldContainer[int]
    security: _security_pb2.SecurityChanges
    unsettled: _containers.RepeatedCompositeFieldContainer[UnsettledSnapshot]
    settle_at: int
    past_cuts: _containers.RepeatedCompositeFieldContainer[PastCutSnapshot]
    past_cuts_from: int
    past_cuts_thinned_at: int
    groups: _group_records_pb2.GroupsSnapshot
    def __init__(self, cluster_id: _Optional[str] = ..., clock_ms: _Optional[int] = ..., cluster_version: _Optional[int] = ..., next_lease_id: _Optional[int] = ..., next_node_id: _Optional[int] = ..., next_producer_id: _Optional[int] = ..., next_transaction: _Optional[int] = ..., next_pin_id: _Optional[int] = ..., format_version: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[_cluster_pb2.Agent, _Mapping]]] = ..., leases: _Optional[_Iterable[_Union[LeaseSnapshot, _Mapping]]] = ..., ended_lease_ids: _Optional[_Iterable[int]] = ..., ended_lease_ms: _Optional[_Iterable[int]] = ..., topics: _Optional[_Iterable[_Union[TopicSnapshot, _Mapping]]] = ..., transactional_ids: _Optional[_Iterable[_Union[TransactionalIdSnapshot, _Mapping]]] = ..., segments: _Optional[_Union[SegmentsSnapshot, _Mapping]] = ..., pins: _Optional[_Union[PinsSnapshot, _Mapping]] = ..., id_hours: _Optional[_Iterable[int]] = ..., id_firsts: _Optional[_Iterable[int]] = ..., security: _Optional[_Union[_security_pb2.SecurityChanges, _Mapping]] = ..., unsettled: _Optional[_Iterable[_Union[UnsettledSnapshot, _Mapping]]] = ..., settle_at: _Optional[int] = ..., past_cuts: _Optional[_Iterable[_Union[PastCutSnapshot, _Mapping]]] = ..., past_cuts_from: _Optional[int] = ..., past_cuts_thinned_at: _Optional[int] = ..., groups: _Optional[_Union[_group_records_pb2.GroupsSnapshot, _Mapping]] = ...) -> None: ...
