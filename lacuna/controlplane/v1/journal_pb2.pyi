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

class JournalRecord(_message.Message):
    __slots__ = ("now_ms", "format_version", "cluster_founded", "agent_joined", "leases_ended", "job_lease_opened", "loss_accepted", "leases_used_late", "time_set", "topics_added", "topics_removed", "partitions_added", "configs_changed", "segment_recorded", "log_starts_moved", "extents_replaced", "segments_collected", "pin_taken", "pins_ended", "pin_prolonged", "segments_released", "import_recorded", "partition_cleaned", "producer_initialized", "transaction_joined", "transaction_ended", "transactional_ids_expired", "producers_expired", "security_changed", "group")
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FOUNDED_FIELD_NUMBER: _ClassVar[int]
    AGENT_JOINED_FIELD_NUMBER: _ClassVar[int]
    LEASES_ENDED_FIELD_NUMBER: _ClassVar[int]
    JOB_LEASE_OPENED_FIELD_NUMBER: _ClassVar[int]
    LOSS_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    LEASES_USED_LATE_FIELD_NUMBER: _ClassVar[int]
    TIME_SET_FIELD_NUMBER: _ClassVar[int]
    TOPICS_ADDED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_ADDED_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_RECORDED_FIELD_NUMBER: _ClassVar[int]
    LOG_STARTS_MOVED_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_REPLACED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_COLLECTED_FIELD_NUMBER: _ClassVar[int]
    PIN_TAKEN_FIELD_NUMBER: _ClassVar[int]
    PINS_ENDED_FIELD_NUMBER: _ClassVar[int]
    PIN_PROLONGED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_RELEASED_FIELD_NUMBER: _ClassVar[int]
    IMPORT_RECORDED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CLEANED_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_JOINED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ENDED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_IDS_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    SECURITY_CHANGED_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    now_ms: int
    format_version: int
    cluster_founded: ClusterFounded
    agent_joined: AgentJoined
    leases_ended: LeasesEnded
    job_lease_opened: JobLeaseOpened
    loss_accepted: LossAccepted
    leases_used_late: LeasesEnded
    time_set: TimeSet
    topics_added: TopicsAdded
    topics_removed: TopicsRemoved
    partitions_added: _cluster_pb2.PartitionCounts
    configs_changed: ConfigsChanged
    segment_recorded: SegmentRecorded
    log_starts_moved: LogStartsMoved
    extents_replaced: ExtentsReplaced
    segments_collected: SegmentsCollected
    pin_taken: PinTaken
    pins_ended: PinsEnded
    pin_prolonged: PinTaken
    segments_released: SegmentsReleased
    import_recorded: ImportRecorded
    partition_cleaned: PartitionCleaned
    producer_initialized: ProducerInitialized
    transaction_joined: TransactionJoined
    transaction_ended: TransactionEnded
    transactional_ids_expired: TransactionalIdsExpired
    producers_expired: ProducersExpired
    security_changed: _security_pb2.SecurityChanges
    group: _group_records_pb2.GroupRecord
    def __init__(self, now_ms: _Optional[int] = ..., format_version: _Optional[int] = ..., cluster_founded: _Optional[_Union[ClusterFounded, _Mapping]] = ..., agent_joined: _Optional[_Union[AgentJoined, _Mapping]] = ..., leases_ended: _Optional[_Union[LeasesEnded, _Mapping]] = ..., job_lease_opened: _Optional[_Union[JobLeaseOpened, _Mapping]] = ..., loss_accepted: _Optional[_Union[LossAccepted, _Mapping]] = ..., leases_used_late: _Optional[_Union[LeasesEnded, _Mapping]] = ..., time_set: _Optional[_Union[TimeSet, _Mapping]] = ..., topics_added: _Optional[_Union[TopicsAdded, _Mapping]] = ..., topics_removed: _Optional[_Union[TopicsRemoved, _Mapping]] = ..., partitions_added: _Optional[_Union[_cluster_pb2.PartitionCounts, _Mapping]] = ..., configs_changed: _Optional[_Union[ConfigsChanged, _Mapping]] = ..., segment_recorded: _Optional[_Union[SegmentRecorded, _Mapping]] = ..., log_starts_moved: _Optional[_Union[LogStartsMoved, _Mapping]] = ..., extents_replaced: _Optional[_Union[ExtentsReplaced, _Mapping]] = ..., segments_collected: _Optional[_Union[SegmentsCollected, _Mapping]] = ..., pin_taken: _Optional[_Union[PinTaken, _Mapping]] = ..., pins_ended: _Optional[_Union[PinsEnded, _Mapping]] = ..., pin_prolonged: _Optional[_Union[PinTaken, _Mapping]] = ..., segments_released: _Optional[_Union[SegmentsReleased, _Mapping]] = ..., import_recorded: _Optional[_Union[ImportRecorded, _Mapping]] = ..., partition_cleaned: _Optional[_Union[PartitionCleaned, _Mapping]] = ..., producer_initialized: _Optional[_Union[ProducerInitialized, _Mapping]] = ..., transaction_joined: _Optional[_Union[TransactionJoined, _Mapping]] = ..., transaction_ended: _Optional[_Union[TransactionEnded, _Mapping]] = ..., transactional_ids_expired: _Optional[_Union[TransactionalIdsExpired, _Mapping]] = ..., producers_expired: _Optional[_Union[ProducersExpired, _Mapping]] = ..., security_changed: _Optional[_Union[_security_pb2.SecurityChanges, _Mapping]] = ..., group: _Optional[_Union[_group_records_pb2.GroupRecord, _Mapping]] = ...) -> None: ...

class ClusterFounded(_message.Message):
    __slots__ = ("cluster_id",)
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class AgentJoined(_message.Message):
    __slots__ = ("lease_id", "node_id", "host", "port", "zone", "endpoints")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    node_id: int
    host: str
    port: int
    zone: str
    endpoints: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Endpoint]
    def __init__(self, lease_id: _Optional[int] = ..., node_id: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., zone: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[_cluster_pb2.Endpoint, _Mapping]]] = ...) -> None: ...

class LossAccepted(_message.Message):
    __slots__ = ("next_lease_id", "next_producer_id", "next_pin_id", "lost_lease_ids")
    NEXT_LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PIN_ID_FIELD_NUMBER: _ClassVar[int]
    LOST_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    next_lease_id: int
    next_producer_id: int
    next_pin_id: int
    lost_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, next_lease_id: _Optional[int] = ..., next_producer_id: _Optional[int] = ..., next_pin_id: _Optional[int] = ..., lost_lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class JobLeaseOpened(_message.Message):
    __slots__ = ("lease_id", "duration_ms")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    duration_ms: int
    def __init__(self, lease_id: _Optional[int] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class LeasesEnded(_message.Message):
    __slots__ = ("lease_ids",)
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TimeSet(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopicsAdded(_message.Message):
    __slots__ = ("topics", "principal")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Topic]
    principal: str
    def __init__(self, topics: _Optional[_Iterable[_Union[_cluster_pb2.Topic, _Mapping]]] = ..., principal: _Optional[str] = ...) -> None: ...

class TopicsRemoved(_message.Message):
    __slots__ = ("topic_ids",)
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ConfigsChanged(_message.Message):
    __slots__ = ("topic_id", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    configs: _containers.ScalarMap[str, str]
    def __init__(self, topic_id: _Optional[bytes] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SegmentRecorded(_message.Message):
    __slots__ = ("segment", "object_size", "slices", "extents", "batches", "verdicts", "started_producer_ids", "started_transactions")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTED_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    segment: _log_pb2.SegmentId
    object_size: int
    slices: bytes
    extents: bytes
    batches: bytes
    verdicts: _log_pb2.SegmentCommitted
    started_producer_ids: _containers.RepeatedScalarFieldContainer[int]
    started_transactions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, segment: _Optional[_Union[_log_pb2.SegmentId, _Mapping]] = ..., object_size: _Optional[int] = ..., slices: _Optional[bytes] = ..., extents: _Optional[bytes] = ..., batches: _Optional[bytes] = ..., verdicts: _Optional[_Union[_log_pb2.SegmentCommitted, _Mapping]] = ..., started_producer_ids: _Optional[_Iterable[int]] = ..., started_transactions: _Optional[_Iterable[int]] = ...) -> None: ...

class ImportRecorded(_message.Message):
    __slots__ = ("segment", "object_size", "slices", "verdicts")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    segment: _log_pb2.SegmentId
    object_size: int
    slices: _containers.RepeatedCompositeFieldContainer[_log_pb2.ImportedSlice]
    verdicts: _log_pb2.SegmentCommitted
    def __init__(self, segment: _Optional[_Union[_log_pb2.SegmentId, _Mapping]] = ..., object_size: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[_log_pb2.ImportedSlice, _Mapping]]] = ..., verdicts: _Optional[_Union[_log_pb2.SegmentCommitted, _Mapping]] = ...) -> None: ...

class LogStartMove(_message.Message):
    __slots__ = ("partition", "log_start_offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    log_start_offset: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., log_start_offset: _Optional[int] = ...) -> None: ...

class LogStartsMoved(_message.Message):
    __slots__ = ("moves",)
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[LogStartMove]
    def __init__(self, moves: _Optional[_Iterable[_Union[LogStartMove, _Mapping]]] = ...) -> None: ...

class PartitionSwap(_message.Message):
    __slots__ = ("partition", "swap", "compacted_to", "compact_again_ms", "log_start_offset", "is_superseding")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SWAP_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_TO_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SUPERSEDING_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    swap: _log_pb2.ExtentSwap
    compacted_to: int
    compact_again_ms: int
    log_start_offset: int
    is_superseding: bool
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., swap: _Optional[_Union[_log_pb2.ExtentSwap, _Mapping]] = ..., compacted_to: _Optional[int] = ..., compact_again_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., is_superseding: _Optional[bool] = ...) -> None: ...

class PartitionCleaned(_message.Message):
    __slots__ = ("partition", "compacted_to", "compact_again_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_TO_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    compacted_to: int
    compact_again_ms: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., compacted_to: _Optional[int] = ..., compact_again_ms: _Optional[int] = ...) -> None: ...

class ExtentsReplaced(_message.Message):
    __slots__ = ("partitions", "segments")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionSwap]
    segments: _containers.RepeatedCompositeFieldContainer[_log_pb2.SwapSegment]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionSwap, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[_log_pb2.SwapSegment, _Mapping]]] = ...) -> None: ...

class SegmentsReleased(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class SegmentsCollected(_message.Message):
    __slots__ = ("segments", "swept_lease_ids")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SWEPT_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_log_pb2.SegmentId]
    swept_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, segments: _Optional[_Iterable[_Union[_log_pb2.SegmentId, _Mapping]]] = ..., swept_lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class PinTaken(_message.Message):
    __slots__ = ("pin_id", "ends_ms")
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    ENDS_MS_FIELD_NUMBER: _ClassVar[int]
    pin_id: int
    ends_ms: int
    def __init__(self, pin_id: _Optional[int] = ..., ends_ms: _Optional[int] = ...) -> None: ...

class PinsEnded(_message.Message):
    __slots__ = ("pin_ids",)
    PIN_IDS_FIELD_NUMBER: _ClassVar[int]
    pin_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, pin_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ProducerInitialized(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "has_transactional_id", "transactional_id", "transaction_timeout_ms", "last_producer_epoch", "previous_producer_id", "principal")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HAS_TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    has_transactional_id: bool
    transactional_id: str
    transaction_timeout_ms: int
    last_producer_epoch: int
    previous_producer_id: int
    principal: str
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., has_transactional_id: _Optional[bool] = ..., transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., last_producer_epoch: _Optional[int] = ..., previous_producer_id: _Optional[int] = ..., principal: _Optional[str] = ...) -> None: ...

class TransactionJoined(_message.Message):
    __slots__ = ("producer_id", "transaction", "partitions", "group_id")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    transaction: int
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    group_id: str
    def __init__(self, producer_id: _Optional[int] = ..., transaction: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., group_id: _Optional[str] = ...) -> None: ...

class TransactionEnded(_message.Message):
    __slots__ = ("producer_id", "committed", "next_producer_id", "next_producer_epoch", "is_by_coordinator")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_BY_COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    committed: bool
    next_producer_id: int
    next_producer_epoch: int
    is_by_coordinator: bool
    def __init__(self, producer_id: _Optional[int] = ..., committed: _Optional[bool] = ..., next_producer_id: _Optional[int] = ..., next_producer_epoch: _Optional[int] = ..., is_by_coordinator: _Optional[bool] = ...) -> None: ...

class TransactionalIdsExpired(_message.Message):
    __slots__ = ("transactional_ids",)
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PartitionProducersExpired(_message.Message):
    __slots__ = ("partition", "producer_ids")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., producer_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ProducersExpired(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionProducersExpired]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionProducersExpired, _Mapping]]] = ...) -> None: ...
