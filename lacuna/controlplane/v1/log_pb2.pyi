from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SegmentId(_message.Message):
    __slots__ = ("lease_id", "sequence")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    sequence: int
    def __init__(self, lease_id: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class Extents(_message.Message):
    __slots__ = ("lease_ids", "sequences", "positions", "sizes", "base_offsets", "next_offsets", "max_timestamps", "producer_ids", "producer_epochs", "transactions", "flags")
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    positions: _containers.RepeatedScalarFieldContainer[int]
    sizes: _containers.RepeatedScalarFieldContainer[int]
    base_offsets: _containers.RepeatedScalarFieldContainer[int]
    next_offsets: _containers.RepeatedScalarFieldContainer[int]
    max_timestamps: _containers.RepeatedScalarFieldContainer[int]
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    producer_epochs: _containers.RepeatedScalarFieldContainer[int]
    transactions: _containers.RepeatedScalarFieldContainer[int]
    flags: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_ids: _Optional[_Iterable[int]] = ..., sequences: _Optional[_Iterable[int]] = ..., positions: _Optional[_Iterable[int]] = ..., sizes: _Optional[_Iterable[int]] = ..., base_offsets: _Optional[_Iterable[int]] = ..., next_offsets: _Optional[_Iterable[int]] = ..., max_timestamps: _Optional[_Iterable[int]] = ..., producer_ids: _Optional[_Iterable[int]] = ..., producer_epochs: _Optional[_Iterable[int]] = ..., transactions: _Optional[_Iterable[int]] = ..., flags: _Optional[_Iterable[int]] = ...) -> None: ...

class ExtentColumns(_message.Message):
    __slots__ = ("lease_ids", "sequences", "positions", "sizes", "base_offsets", "next_offsets", "max_timestamps", "producer_ids", "producer_epochs", "transactions", "flags")
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    lease_ids: bytes
    sequences: bytes
    positions: bytes
    sizes: bytes
    base_offsets: bytes
    next_offsets: bytes
    max_timestamps: bytes
    producer_ids: bytes
    producer_epochs: bytes
    transactions: bytes
    flags: bytes
    def __init__(self, lease_ids: _Optional[bytes] = ..., sequences: _Optional[bytes] = ..., positions: _Optional[bytes] = ..., sizes: _Optional[bytes] = ..., base_offsets: _Optional[bytes] = ..., next_offsets: _Optional[bytes] = ..., max_timestamps: _Optional[bytes] = ..., producer_ids: _Optional[bytes] = ..., producer_epochs: _Optional[bytes] = ..., transactions: _Optional[bytes] = ..., flags: _Optional[bytes] = ...) -> None: ...

class PartitionDelta(_message.Message):
    __slots__ = ("partition", "from_version", "version", "is_snapshot", "is_deleted", "log_start_offset", "high_watermark", "last_stable_offset", "appended", "dead", "extents", "swaps", "dropped_below", "vacated_to", "history", "refusal", "older_below", "is_older", "cut_offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    IS_DELETED_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    SWAPS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BELOW_FIELD_NUMBER: _ClassVar[int]
    VACATED_TO_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    OLDER_BELOW_FIELD_NUMBER: _ClassVar[int]
    IS_OLDER_FIELD_NUMBER: _ClassVar[int]
    CUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    from_version: int
    version: int
    is_snapshot: bool
    is_deleted: bool
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    appended: bytes
    dead: bytes
    extents: ExtentColumns
    swaps: _containers.RepeatedCompositeFieldContainer[ExtentSwap]
    dropped_below: int
    vacated_to: int
    history: StableHistory
    refusal: str
    older_below: int
    is_older: bool
    cut_offset: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., from_version: _Optional[int] = ..., version: _Optional[int] = ..., is_snapshot: _Optional[bool] = ..., is_deleted: _Optional[bool] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., appended: _Optional[bytes] = ..., dead: _Optional[bytes] = ..., extents: _Optional[_Union[ExtentColumns, _Mapping]] = ..., swaps: _Optional[_Iterable[_Union[ExtentSwap, _Mapping]]] = ..., dropped_below: _Optional[int] = ..., vacated_to: _Optional[int] = ..., history: _Optional[_Union[StableHistory, _Mapping]] = ..., refusal: _Optional[str] = ..., older_below: _Optional[int] = ..., is_older: _Optional[bool] = ..., cut_offset: _Optional[int] = ...) -> None: ...

class StableHistory(_message.Message):
    __slots__ = ("seconds", "offsets", "settled_ms", "thinned_at")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_MS_FIELD_NUMBER: _ClassVar[int]
    THINNED_AT_FIELD_NUMBER: _ClassVar[int]
    seconds: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    settled_ms: int
    thinned_at: int
    def __init__(self, seconds: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ..., settled_ms: _Optional[int] = ..., thinned_at: _Optional[int] = ...) -> None: ...

class ExtentSwap(_message.Message):
    __slots__ = ("first_offset", "end_offset", "extents")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    end_offset: int
    extents: Extents
    def __init__(self, first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., extents: _Optional[_Union[Extents, _Mapping]] = ...) -> None: ...

class CommitSegment(_message.Message):
    __slots__ = ("segment", "object_size", "slices", "batches", "transactional_ids", "hot", "follows")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    HOT_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    segment: SegmentId
    object_size: int
    slices: bytes
    batches: bytes
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    hot: bytes
    follows: int
    def __init__(self, segment: _Optional[_Union[SegmentId, _Mapping]] = ..., object_size: _Optional[int] = ..., slices: _Optional[bytes] = ..., batches: _Optional[bytes] = ..., transactional_ids: _Optional[_Iterable[str]] = ..., hot: _Optional[bytes] = ..., follows: _Optional[int] = ...) -> None: ...

class SegmentCommitted(_message.Message):
    __slots__ = ("error_code", "slices", "batches")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    slices: bytes
    batches: bytes
    def __init__(self, error_code: _Optional[int] = ..., slices: _Optional[bytes] = ..., batches: _Optional[bytes] = ...) -> None: ...

class ImportSegment(_message.Message):
    __slots__ = ("segment", "object_size", "slices")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    segment: SegmentId
    object_size: int
    slices: _containers.RepeatedCompositeFieldContainer[ImportedSlice]
    def __init__(self, segment: _Optional[_Union[SegmentId, _Mapping]] = ..., object_size: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[ImportedSlice, _Mapping]]] = ...) -> None: ...

class ImportedSlice(_message.Message):
    __slots__ = ("partition", "source", "first_offset", "end_offset", "extents", "next_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    source: str
    first_offset: int
    end_offset: int
    extents: bytes
    next_epoch: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., source: _Optional[str] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., extents: _Optional[bytes] = ..., next_epoch: _Optional[int] = ...) -> None: ...

class ReadHot(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentId]
    def __init__(self, segments: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ...) -> None: ...

class HotSegment(_message.Message):
    __slots__ = ("data", "is_gone", "is_damaged")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_GONE_FIELD_NUMBER: _ClassVar[int]
    IS_DAMAGED_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_gone: bool
    is_damaged: bool
    def __init__(self, data: _Optional[bytes] = ..., is_gone: _Optional[bool] = ..., is_damaged: _Optional[bool] = ...) -> None: ...

class HotRead(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[HotSegment]
    def __init__(self, segments: _Optional[_Iterable[_Union[HotSegment, _Mapping]]] = ...) -> None: ...

class ReadPartitions(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class PartitionState(_message.Message):
    __slots__ = ("error_code", "version", "log_start_offset", "high_watermark", "last_stable_offset", "size", "next_epoch")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NEXT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    version: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    size: int
    next_epoch: int
    def __init__(self, error_code: _Optional[int] = ..., version: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., size: _Optional[int] = ..., next_epoch: _Optional[int] = ...) -> None: ...

class PartitionsRead(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionState]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionState, _Mapping]]] = ...) -> None: ...

class ReadAsOf(_message.Message):
    __slots__ = ("partitions", "at_ms", "is_cut")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_CUT_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    at_ms: int
    is_cut: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., at_ms: _Optional[int] = ..., is_cut: _Optional[bool] = ...) -> None: ...

class PartitionAsOf(_message.Message):
    __slots__ = ("error_code", "end_offset", "log_start_offset", "last_stable_offset")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    end_offset: int
    log_start_offset: int
    last_stable_offset: int
    def __init__(self, error_code: _Optional[int] = ..., end_offset: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., last_stable_offset: _Optional[int] = ...) -> None: ...

class AsOfRead(_message.Message):
    __slots__ = ("as_of_ms", "known_from_ms", "partitions")
    AS_OF_MS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    as_of_ms: int
    known_from_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAsOf]
    def __init__(self, as_of_ms: _Optional[int] = ..., known_from_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionAsOf, _Mapping]]] = ...) -> None: ...

class PartitionCut(_message.Message):
    __slots__ = ("error_code", "end_offset", "last_stable_offset", "holder")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    end_offset: int
    last_stable_offset: int
    holder: int
    def __init__(self, error_code: _Optional[int] = ..., end_offset: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., holder: _Optional[int] = ...) -> None: ...

class CutHolder(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "start_time_ms", "transaction_timeout_ms", "partitions")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    start_time_ms: int
    transaction_timeout_ms: int
    partitions: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., start_time_ms: _Optional[int] = ..., transaction_timeout_ms: _Optional[int] = ..., partitions: _Optional[int] = ...) -> None: ...

class CutRead(_message.Message):
    __slots__ = ("at_ms", "partitions", "holders")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionCut]
    holders: _containers.RepeatedCompositeFieldContainer[CutHolder]
    def __init__(self, at_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionCut, _Mapping]]] = ..., holders: _Optional[_Iterable[_Union[CutHolder, _Mapping]]] = ...) -> None: ...

class HistoriesRead(_message.Message):
    __slots__ = ("histories",)
    HISTORIES_FIELD_NUMBER: _ClassVar[int]
    histories: _containers.RepeatedCompositeFieldContainer[StableHistory]
    def __init__(self, histories: _Optional[_Iterable[_Union[StableHistory, _Mapping]]] = ...) -> None: ...

class DeleteRecordsPartition(_message.Message):
    __slots__ = ("partition", "before_offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    before_offset: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., before_offset: _Optional[int] = ...) -> None: ...

class DeleteRecords(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DeleteRecordsPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DeleteRecordsPartition, _Mapping]]] = ...) -> None: ...

class PlanMerge(_message.Message):
    __slots__ = ("lease_id", "max_bytes", "small_bytes", "min_extents", "min_age_ms", "avoided")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SMALL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    max_bytes: int
    small_bytes: int
    min_extents: int
    min_age_ms: int
    avoided: _containers.RepeatedCompositeFieldContainer[SegmentId]
    def __init__(self, lease_id: _Optional[int] = ..., max_bytes: _Optional[int] = ..., small_bytes: _Optional[int] = ..., min_extents: _Optional[int] = ..., min_age_ms: _Optional[int] = ..., avoided: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ...) -> None: ...

class MergePlan(_message.Message):
    __slots__ = ("error_code", "partitions")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    partitions: _containers.RepeatedCompositeFieldContainer[CompactionRange]
    def __init__(self, error_code: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[CompactionRange, _Mapping]]] = ...) -> None: ...

class PlanCompaction(_message.Message):
    __slots__ = ("partitions", "small_bytes", "rewrites_all", "max_extents", "min_age_ms", "from_offsets", "is_for_swap")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SMALL_BYTES_FIELD_NUMBER: _ClassVar[int]
    REWRITES_ALL_FIELD_NUMBER: _ClassVar[int]
    MAX_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    IS_FOR_SWAP_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    small_bytes: int
    rewrites_all: bool
    max_extents: int
    min_age_ms: int
    from_offsets: _containers.RepeatedScalarFieldContainer[int]
    is_for_swap: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., small_bytes: _Optional[int] = ..., rewrites_all: _Optional[bool] = ..., max_extents: _Optional[int] = ..., min_age_ms: _Optional[int] = ..., from_offsets: _Optional[_Iterable[int]] = ..., is_for_swap: _Optional[bool] = ...) -> None: ...

class CompactionRange(_message.Message):
    __slots__ = ("partition", "version", "first_offset", "end_offset", "extents", "dead", "fence", "log_start_offset", "last_stable_offset", "cleanup_policy", "retention_ms", "delete_retention_ms", "min_compaction_lag_ms", "has_more", "compacted_to", "superseded_to")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLEANUP_POLICY_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    DELETE_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_COMPACTION_LAG_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_TO_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_TO_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    version: int
    first_offset: int
    end_offset: int
    extents: ExtentColumns
    dead: bytes
    fence: bytes
    log_start_offset: int
    last_stable_offset: int
    cleanup_policy: str
    retention_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    has_more: bool
    compacted_to: int
    superseded_to: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., version: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., extents: _Optional[_Union[ExtentColumns, _Mapping]] = ..., dead: _Optional[bytes] = ..., fence: _Optional[bytes] = ..., log_start_offset: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., cleanup_policy: _Optional[str] = ..., retention_ms: _Optional[int] = ..., delete_retention_ms: _Optional[int] = ..., min_compaction_lag_ms: _Optional[int] = ..., has_more: _Optional[bool] = ..., compacted_to: _Optional[int] = ..., superseded_to: _Optional[int] = ...) -> None: ...

class CompactionPlan(_message.Message):
    __slots__ = ("error_code", "planned_at_ms", "ranges", "left_out")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    planned_at_ms: int
    ranges: _containers.RepeatedCompositeFieldContainer[CompactionRange]
    left_out: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    def __init__(self, error_code: _Optional[int] = ..., planned_at_ms: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[CompactionRange, _Mapping]]] = ..., left_out: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class SwapPartition(_message.Message):
    __slots__ = ("partition", "swap", "fence", "compacted_to", "compact_again_ms", "log_start_offset", "is_superseding")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SWAP_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_TO_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_SUPERSEDING_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    swap: ExtentSwap
    fence: bytes
    compacted_to: int
    compact_again_ms: int
    log_start_offset: int
    is_superseding: bool
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., swap: _Optional[_Union[ExtentSwap, _Mapping]] = ..., fence: _Optional[bytes] = ..., compacted_to: _Optional[int] = ..., compact_again_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., is_superseding: _Optional[bool] = ...) -> None: ...

class SwapSegment(_message.Message):
    __slots__ = ("segment", "object_size")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SIZE_FIELD_NUMBER: _ClassVar[int]
    segment: SegmentId
    object_size: int
    def __init__(self, segment: _Optional[_Union[SegmentId, _Mapping]] = ..., object_size: _Optional[int] = ...) -> None: ...

class SwapExtents(_message.Message):
    __slots__ = ("is_compaction", "partitions", "segments")
    IS_COMPACTION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    is_compaction: bool
    partitions: _containers.RepeatedCompositeFieldContainer[SwapPartition]
    segments: _containers.RepeatedCompositeFieldContainer[SwapSegment]
    def __init__(self, is_compaction: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[SwapPartition, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[SwapSegment, _Mapping]]] = ...) -> None: ...

class PlanCleaning(_message.Message):
    __slots__ = ("lease_id", "min_age_ms", "min_bytes", "avoided")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    min_age_ms: int
    min_bytes: int
    avoided: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    def __init__(self, lease_id: _Optional[int] = ..., min_age_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., avoided: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class CleaningPlan(_message.Message):
    __slots__ = ("error_code", "partition", "planned_at_ms", "first_dirty_offset", "end_offset", "delete_retention_ms", "dirty_bytes")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PLANNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_DIRTY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETE_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    DIRTY_BYTES_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    partition: _cluster_pb2.TopicPartition
    planned_at_ms: int
    first_dirty_offset: int
    end_offset: int
    delete_retention_ms: int
    dirty_bytes: int
    def __init__(self, error_code: _Optional[int] = ..., partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., planned_at_ms: _Optional[int] = ..., first_dirty_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., delete_retention_ms: _Optional[int] = ..., dirty_bytes: _Optional[int] = ...) -> None: ...

class PlanCleaningRange(_message.Message):
    __slots__ = ("lease_id", "partition", "from_offset", "end_offset", "max_bytes")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    partition: _cluster_pb2.TopicPartition
    from_offset: int
    end_offset: int
    max_bytes: int
    def __init__(self, lease_id: _Optional[int] = ..., partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., from_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class CleaningRange(_message.Message):
    __slots__ = ("error_code", "range")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    range: CompactionRange
    def __init__(self, error_code: _Optional[int] = ..., range: _Optional[_Union[CompactionRange, _Mapping]] = ...) -> None: ...

class FinishCleaning(_message.Message):
    __slots__ = ("lease_id", "partition", "cleaned_to", "clean_again_ms")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CLEANED_TO_FIELD_NUMBER: _ClassVar[int]
    CLEAN_AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    partition: _cluster_pb2.TopicPartition
    cleaned_to: int
    clean_again_ms: int
    def __init__(self, lease_id: _Optional[int] = ..., partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., cleaned_to: _Optional[int] = ..., clean_again_ms: _Optional[int] = ...) -> None: ...

class DescribeMerges(_message.Message):
    __slots__ = ("topic_ids",)
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Rewritten(_message.Message):
    __slots__ = ("swaps", "extents_before", "extents_after", "bytes_before", "bytes_after", "aborted_offsets")
    SWAPS_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_AFTER_FIELD_NUMBER: _ClassVar[int]
    BYTES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BYTES_AFTER_FIELD_NUMBER: _ClassVar[int]
    ABORTED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    swaps: int
    extents_before: int
    extents_after: int
    bytes_before: int
    bytes_after: int
    aborted_offsets: int
    def __init__(self, swaps: _Optional[int] = ..., extents_before: _Optional[int] = ..., extents_after: _Optional[int] = ..., bytes_before: _Optional[int] = ..., bytes_after: _Optional[int] = ..., aborted_offsets: _Optional[int] = ...) -> None: ...

class TopicMerges(_message.Message):
    __slots__ = ("topic_id", "merged", "compacted", "small_extents", "small_bytes", "aborted_offsets", "aborted_bytes", "partitions_left_out")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    SMALL_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    SMALL_BYTES_FIELD_NUMBER: _ClassVar[int]
    ABORTED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ABORTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    merged: Rewritten
    compacted: Rewritten
    small_extents: int
    small_bytes: int
    aborted_offsets: int
    aborted_bytes: int
    partitions_left_out: int
    def __init__(self, topic_id: _Optional[bytes] = ..., merged: _Optional[_Union[Rewritten, _Mapping]] = ..., compacted: _Optional[_Union[Rewritten, _Mapping]] = ..., small_extents: _Optional[int] = ..., small_bytes: _Optional[int] = ..., aborted_offsets: _Optional[int] = ..., aborted_bytes: _Optional[int] = ..., partitions_left_out: _Optional[int] = ...) -> None: ...

class MergeRun(_message.Message):
    __slots__ = ("at_ms", "is_compaction", "partitions", "refused", "rewritten")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_COMPACTION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REWRITTEN_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    is_compaction: bool
    partitions: int
    refused: int
    rewritten: Rewritten
    def __init__(self, at_ms: _Optional[int] = ..., is_compaction: _Optional[bool] = ..., partitions: _Optional[int] = ..., refused: _Optional[int] = ..., rewritten: _Optional[_Union[Rewritten, _Mapping]] = ...) -> None: ...

class MergesDescribed(_message.Message):
    __slots__ = ("since_ms", "merged", "compacted", "refused", "objects_deleted", "bytes_deleted", "objects_replaced", "topics", "runs")
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_DELETED_FIELD_NUMBER: _ClassVar[int]
    BYTES_DELETED_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_REPLACED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    since_ms: int
    merged: Rewritten
    compacted: Rewritten
    refused: int
    objects_deleted: int
    bytes_deleted: int
    objects_replaced: int
    topics: _containers.RepeatedCompositeFieldContainer[TopicMerges]
    runs: _containers.RepeatedCompositeFieldContainer[MergeRun]
    def __init__(self, since_ms: _Optional[int] = ..., merged: _Optional[_Union[Rewritten, _Mapping]] = ..., compacted: _Optional[_Union[Rewritten, _Mapping]] = ..., refused: _Optional[int] = ..., objects_deleted: _Optional[int] = ..., bytes_deleted: _Optional[int] = ..., objects_replaced: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[TopicMerges, _Mapping]]] = ..., runs: _Optional[_Iterable[_Union[MergeRun, _Mapping]]] = ...) -> None: ...

class PlanCollection(_message.Message):
    __slots__ = ("lease_id", "max_segments", "avoided", "avoided_lease_ids")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    max_segments: int
    avoided: _containers.RepeatedCompositeFieldContainer[SegmentId]
    avoided_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_id: _Optional[int] = ..., max_segments: _Optional[int] = ..., avoided: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ..., avoided_lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CollectionPlan(_message.Message):
    __slots__ = ("error_code", "segments", "swept_lease_ids")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SWEPT_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    segments: _containers.RepeatedCompositeFieldContainer[SegmentId]
    swept_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_code: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ..., swept_lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class FilterUncommitted(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentId]
    def __init__(self, segments: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ...) -> None: ...

class UncommittedFiltered(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentId]
    def __init__(self, segments: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ...) -> None: ...

class ConfirmCollection(_message.Message):
    __slots__ = ("segments", "swept_lease_ids")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SWEPT_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentId]
    swept_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, segments: _Optional[_Iterable[_Union[SegmentId, _Mapping]]] = ..., swept_lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class PinReads(_message.Message):
    __slots__ = ("duration_ms", "pin_id")
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    duration_ms: int
    pin_id: int
    def __init__(self, duration_ms: _Optional[int] = ..., pin_id: _Optional[int] = ...) -> None: ...

class ReadsPinned(_message.Message):
    __slots__ = ("pin_id", "error_code")
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    pin_id: int
    error_code: int
    def __init__(self, pin_id: _Optional[int] = ..., error_code: _Optional[int] = ...) -> None: ...

class UnpinReads(_message.Message):
    __slots__ = ("pin_id",)
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    pin_id: int
    def __init__(self, pin_id: _Optional[int] = ...) -> None: ...

class StoredPartition(_message.Message):
    __slots__ = ("partition", "part", "position", "size", "crc")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    part: int
    position: int
    size: int
    crc: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., part: _Optional[int] = ..., position: _Optional[int] = ..., size: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class MetadataIndex(_message.Message):
    __slots__ = ("cluster_id", "published_ms", "valid_until_ms", "topics", "partitions")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_MS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    published_ms: int
    valid_until_ms: int
    topics: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Topic]
    partitions: _containers.RepeatedCompositeFieldContainer[StoredPartition]
    def __init__(self, cluster_id: _Optional[str] = ..., published_ms: _Optional[int] = ..., valid_until_ms: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[_cluster_pb2.Topic, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[StoredPartition, _Mapping]]] = ...) -> None: ...
