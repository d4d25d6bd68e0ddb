from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from lacuna.controlplane.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcknowledgedRange(_message.Message):
    __slots__ = ("first_offset", "last_offset", "types")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    types: bytes
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., types: _Optional[bytes] = ...) -> None: ...

class SharePartitionRequest(_message.Message):
    __slots__ = ("partition", "acknowledged", "acquires", "start_offset", "hole_end")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    ACQUIRES_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HOLE_END_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    acknowledged: _containers.RepeatedCompositeFieldContainer[AcknowledgedRange]
    acquires: bool
    start_offset: int
    hole_end: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., acknowledged: _Optional[_Iterable[_Union[AcknowledgedRange, _Mapping]]] = ..., acquires: _Optional[bool] = ..., start_offset: _Optional[int] = ..., hole_end: _Optional[int] = ...) -> None: ...

class ShareRecords(_message.Message):
    __slots__ = ("group_id", "member_id", "partitions", "max_records", "max_bytes", "releases")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionRequest]
    max_records: int
    max_bytes: int
    releases: bool
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionRequest, _Mapping]]] = ..., max_records: _Optional[int] = ..., max_bytes: _Optional[int] = ..., releases: _Optional[bool] = ...) -> None: ...

class AcquiredRecords(_message.Message):
    __slots__ = ("first_offset", "last_offset", "delivery_count")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    delivery_count: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery_count: _Optional[int] = ...) -> None: ...

class SharedPartition(_message.Message):
    __slots__ = ("acknowledge_error_code", "acknowledge_error_message", "error_code", "acquired", "begins_at_ms")
    ACKNOWLEDGE_ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    BEGINS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    acknowledge_error_code: int
    acknowledge_error_message: str
    error_code: int
    acquired: _containers.RepeatedCompositeFieldContainer[AcquiredRecords]
    begins_at_ms: int
    def __init__(self, acknowledge_error_code: _Optional[int] = ..., acknowledge_error_message: _Optional[str] = ..., error_code: _Optional[int] = ..., acquired: _Optional[_Iterable[_Union[AcquiredRecords, _Mapping]]] = ..., begins_at_ms: _Optional[int] = ...) -> None: ...

class RecordsShared(_message.Message):
    __slots__ = ("partitions", "lock_duration_ms", "next_expiry_ms", "has_dead_letters")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LOCK_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_EXPIRY_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[SharedPartition]
    lock_duration_ms: int
    next_expiry_ms: int
    has_dead_letters: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[SharedPartition, _Mapping]]] = ..., lock_duration_ms: _Optional[int] = ..., next_expiry_ms: _Optional[int] = ..., has_dead_letters: _Optional[bool] = ...) -> None: ...

class DeadLetters(_message.Message):
    __slots__ = ("group_id", "partition", "first_offset", "end_offset", "delivery_count", "is_rejected", "slice")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_REJECTED_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partition: _cluster_pb2.TopicPartition
    first_offset: int
    end_offset: int
    delivery_count: int
    is_rejected: bool
    slice: int
    def __init__(self, group_id: _Optional[str] = ..., partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., delivery_count: _Optional[int] = ..., is_rejected: _Optional[bool] = ..., slice: _Optional[int] = ...) -> None: ...

class PlanDeadLetters(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupsDeadLetters(_message.Message):
    __slots__ = ("queue", "queue_id", "partition_count", "copies", "letters")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    queue_id: bytes
    partition_count: int
    copies: bool
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetters]
    def __init__(self, queue: _Optional[str] = ..., queue_id: _Optional[bytes] = ..., partition_count: _Optional[int] = ..., copies: _Optional[bool] = ..., letters: _Optional[_Iterable[_Union[DeadLetters, _Mapping]]] = ...) -> None: ...

class DeadLettersPlanned(_message.Message):
    __slots__ = ("groups", "lost")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupsDeadLetters]
    lost: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupsDeadLetters, _Mapping]]] = ..., lost: _Optional[_Iterable[str]] = ...) -> None: ...

class BuryRecords(_message.Message):
    __slots__ = ("commit", "letters")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    commit: _log_pb2.CommitSegment
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetters]
    def __init__(self, commit: _Optional[_Union[_log_pb2.CommitSegment, _Mapping]] = ..., letters: _Optional[_Iterable[_Union[DeadLetters, _Mapping]]] = ...) -> None: ...

class ShareOffset(_message.Message):
    __slots__ = ("partition", "start_offset", "lag", "error_code", "acquired", "available", "archiving", "delivery_count")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    ARCHIVING_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    start_offset: int
    lag: int
    error_code: int
    acquired: int
    available: int
    archiving: int
    delivery_count: int
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., start_offset: _Optional[int] = ..., lag: _Optional[int] = ..., error_code: _Optional[int] = ..., acquired: _Optional[int] = ..., available: _Optional[int] = ..., archiving: _Optional[int] = ..., delivery_count: _Optional[int] = ...) -> None: ...

class DescribeShareOffsets(_message.Message):
    __slots__ = ("group_id", "partitions", "all_partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    all_partitions: bool
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ..., all_partitions: _Optional[bool] = ...) -> None: ...

class ShareOffsetsDescribed(_message.Message):
    __slots__ = ("error_code", "error_message", "offsets")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    offsets: _containers.RepeatedCompositeFieldContainer[ShareOffset]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[ShareOffset, _Mapping]]] = ...) -> None: ...

class AlterShareOffsets(_message.Message):
    __slots__ = ("group_id", "offsets")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[ShareOffset]
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[ShareOffset, _Mapping]]] = ...) -> None: ...

class ShareOffsetsChanged(_message.Message):
    __slots__ = ("error_code", "error_message", "error_codes")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    error_codes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., error_codes: _Optional[_Iterable[int]] = ...) -> None: ...

class DeleteShareOffsets(_message.Message):
    __slots__ = ("group_id", "topic_ids")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, group_id: _Optional[str] = ..., topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ShareRun(_message.Message):
    __slots__ = ("first_offset", "end_offset", "state", "delivery_count", "member_id", "locked_until_ms", "is_rejected")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    LOCKED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    IS_REJECTED_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    end_offset: int
    state: int
    delivery_count: int
    member_id: str
    locked_until_ms: int
    is_rejected: bool
    def __init__(self, first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., state: _Optional[int] = ..., delivery_count: _Optional[int] = ..., member_id: _Optional[str] = ..., locked_until_ms: _Optional[int] = ..., is_rejected: _Optional[bool] = ...) -> None: ...

class SharePartitionStep(_message.Message):
    __slots__ = ("partition", "start_offset", "end_offset", "runs", "is_dropped", "is_reset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    IS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    IS_RESET_FIELD_NUMBER: _ClassVar[int]
    partition: _cluster_pb2.TopicPartition
    start_offset: int
    end_offset: int
    runs: _containers.RepeatedCompositeFieldContainer[ShareRun]
    is_dropped: bool
    is_reset: bool
    def __init__(self, partition: _Optional[_Union[_cluster_pb2.TopicPartition, _Mapping]] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[ShareRun, _Mapping]]] = ..., is_dropped: _Optional[bool] = ..., is_reset: _Optional[bool] = ...) -> None: ...

class SharePartitionsStep(_message.Message):
    __slots__ = ("group_id", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionStep]
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionStep, _Mapping]]] = ...) -> None: ...
