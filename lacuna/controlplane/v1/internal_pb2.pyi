from lacuna.controlplane.v1 import consumer_groups_pb2 as _consumer_groups_pb2
from lacuna.controlplane.v1 import group_records_pb2 as _group_records_pb2
from lacuna.controlplane.v1 import groups_pb2 as _groups_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InternalTransaction(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "previous_producer_id", "transaction_timeout_ms", "state", "start_time_ms", "last_update_ms", "topics", "partitions", "group_ids")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    transaction_timeout_ms: int
    state: str
    start_time_ms: int
    last_update_ms: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., previous_producer_id: _Optional[int] = ..., transaction_timeout_ms: _Optional[int] = ..., state: _Optional[str] = ..., start_time_ms: _Optional[int] = ..., last_update_ms: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[int]] = ..., group_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class InternalEntry(_message.Message):
    __slots__ = ("offset", "at_ms", "key", "committed", "generation", "epoch", "subscription", "target", "current", "transaction")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    offset: int
    at_ms: int
    key: _group_records_pb2.InternalKey
    committed: _groups_pb2.CommittedOffset
    generation: _group_records_pb2.GroupGeneration
    epoch: int
    subscription: _consumer_groups_pb2.ConsumerSubscription
    target: _consumer_groups_pb2.ConsumerTarget
    current: _consumer_groups_pb2.ConsumerCurrent
    transaction: InternalTransaction
    def __init__(self, offset: _Optional[int] = ..., at_ms: _Optional[int] = ..., key: _Optional[_Union[_group_records_pb2.InternalKey, _Mapping]] = ..., committed: _Optional[_Union[_groups_pb2.CommittedOffset, _Mapping]] = ..., generation: _Optional[_Union[_group_records_pb2.GroupGeneration, _Mapping]] = ..., epoch: _Optional[int] = ..., subscription: _Optional[_Union[_consumer_groups_pb2.ConsumerSubscription, _Mapping]] = ..., target: _Optional[_Union[_consumer_groups_pb2.ConsumerTarget, _Mapping]] = ..., current: _Optional[_Union[_consumer_groups_pb2.ConsumerCurrent, _Mapping]] = ..., transaction: _Optional[_Union[InternalTransaction, _Mapping]] = ...) -> None: ...

class InternalPosition(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: int
    partition: int
    offset: int
    max_bytes: int
    def __init__(self, topic: _Optional[int] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReadInternal(_message.Message):
    __slots__ = ("positions", "max_bytes")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[InternalPosition]
    max_bytes: int
    def __init__(self, positions: _Optional[_Iterable[_Union[InternalPosition, _Mapping]]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class InternalPartitionRead(_message.Message):
    __slots__ = ("high_watermark", "end_offset", "entries")
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    high_watermark: int
    end_offset: int
    entries: _containers.RepeatedCompositeFieldContainer[InternalEntry]
    def __init__(self, high_watermark: _Optional[int] = ..., end_offset: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[InternalEntry, _Mapping]]] = ...) -> None: ...

class InternalRead(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[InternalPartitionRead]
    def __init__(self, partitions: _Optional[_Iterable[_Union[InternalPartitionRead, _Mapping]]] = ...) -> None: ...
