from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from lacuna.controlplane.v1 import consumer_groups_pb2 as _consumer_groups_pb2
from lacuna.controlplane.v1 import groups_pb2 as _groups_pb2
from lacuna.controlplane.v1 import share_pb2 as _share_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupMember(_message.Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms", "metadata", "assignment")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    group_instance_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes
    def __init__(self, member_id: _Optional[str] = ..., group_instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ..., metadata: _Optional[bytes] = ..., assignment: _Optional[bytes] = ...) -> None: ...

class GroupGeneration(_message.Message):
    __slots__ = ("group_id", "generation_id", "protocol_type", "protocol_name", "leader", "members", "written_at_ms")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_NAME_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    generation_id: int
    protocol_type: str
    protocol_name: str
    leader: str
    members: _containers.RepeatedCompositeFieldContainer[GroupMember]
    written_at_ms: int
    def __init__(self, group_id: _Optional[str] = ..., generation_id: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocol_name: _Optional[str] = ..., leader: _Optional[str] = ..., members: _Optional[_Iterable[_Union[GroupMember, _Mapping]]] = ..., written_at_ms: _Optional[int] = ...) -> None: ...

class GroupDeleted(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    def __init__(self, group_id: _Optional[str] = ...) -> None: ...

class OffsetsWritten(_message.Message):
    __slots__ = ("group_id", "offsets", "written_at_ms")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[_groups_pb2.CommittedOffset]
    written_at_ms: int
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_groups_pb2.CommittedOffset, _Mapping]]] = ..., written_at_ms: _Optional[int] = ...) -> None: ...

class TxnOffsetsPended(_message.Message):
    __slots__ = ("producer_id", "group_id", "offsets", "written_at_ms")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[_groups_pb2.CommittedOffset]
    written_at_ms: int
    def __init__(self, producer_id: _Optional[int] = ..., group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_groups_pb2.CommittedOffset, _Mapping]]] = ..., written_at_ms: _Optional[int] = ...) -> None: ...

class OffsetsExpired(_message.Message):
    __slots__ = ("group_id", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.TopicPartition]
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_cluster_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class GroupRecord(_message.Message):
    __slots__ = ("group_generation", "group_deleted", "offsets_written", "txn_offsets_pended", "offsets_expired", "consumer_group_step", "group_configs_changed", "share_group_step", "share_partitions_step", "streams_group_step", "principal")
    GROUP_GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_DELETED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    TXN_OFFSETS_PENDED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_STEP_FIELD_NUMBER: _ClassVar[int]
    GROUP_CONFIGS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SHARE_GROUP_STEP_FIELD_NUMBER: _ClassVar[int]
    SHARE_PARTITIONS_STEP_FIELD_NUMBER: _ClassVar[int]
    STREAMS_GROUP_STEP_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    group_generation: GroupGeneration
    group_deleted: GroupDeleted
    offsets_written: OffsetsWritten
    txn_offsets_pended: TxnOffsetsPended
    offsets_expired: OffsetsExpired
    consumer_group_step: _consumer_groups_pb2.ConsumerGroupStep
    group_configs_changed: _consumer_groups_pb2.GroupConfigs
    share_group_step: _consumer_groups_pb2.ConsumerGroupStep
    share_partitions_step: _share_pb2.SharePartitionsStep
    streams_group_step: _consumer_groups_pb2.StreamsGroupStep
    principal: str
    def __init__(self, group_generation: _Optional[_Union[GroupGeneration, _Mapping]] = ..., group_deleted: _Optional[_Union[GroupDeleted, _Mapping]] = ..., offsets_written: _Optional[_Union[OffsetsWritten, _Mapping]] = ..., txn_offsets_pended: _Optional[_Union[TxnOffsetsPended, _Mapping]] = ..., offsets_expired: _Optional[_Union[OffsetsExpired, _Mapping]] = ..., consumer_group_step: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupStep, _Mapping]] = ..., group_configs_changed: _Optional[_Union[_consumer_groups_pb2.GroupConfigs, _Mapping]] = ..., share_group_step: _Optional[_Union[_consumer_groups_pb2.ConsumerGroupStep, _Mapping]] = ..., share_partitions_step: _Optional[_Union[_share_pb2.SharePartitionsStep, _Mapping]] = ..., streams_group_step: _Optional[_Union[_consumer_groups_pb2.StreamsGroupStep, _Mapping]] = ..., principal: _Optional[str] = ...) -> None: ...

class KeptOffset(_message.Message):
    __slots__ = ("offset", "written_at_ms", "sequence", "log_offset")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: _groups_pb2.CommittedOffset
    written_at_ms: int
    sequence: int
    log_offset: int
    def __init__(self, offset: _Optional[_Union[_groups_pb2.CommittedOffset, _Mapping]] = ..., written_at_ms: _Optional[int] = ..., sequence: _Optional[int] = ..., log_offset: _Optional[int] = ...) -> None: ...

class KeptOffsets(_message.Message):
    __slots__ = ("group_id", "offsets")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[KeptOffset]
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[KeptOffset, _Mapping]]] = ...) -> None: ...

class PendingOffsets(_message.Message):
    __slots__ = ("producer_id", "group_id", "offsets")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[KeptOffset]
    def __init__(self, producer_id: _Optional[int] = ..., group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[KeptOffset, _Mapping]]] = ...) -> None: ...

class InternalKey(_message.Message):
    __slots__ = ("kind", "name", "member_id", "topic", "partition")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    kind: int
    name: str
    member_id: str
    topic: str
    partition: int
    def __init__(self, kind: _Optional[int] = ..., name: _Optional[str] = ..., member_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class InternalTombstone(_message.Message):
    __slots__ = ("topic", "partition", "offset", "at_ms", "key")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    topic: int
    partition: int
    offset: int
    at_ms: int
    key: InternalKey
    def __init__(self, topic: _Optional[int] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., at_ms: _Optional[int] = ..., key: _Optional[_Union[InternalKey, _Mapping]] = ...) -> None: ...

class InternalGroupRecord(_message.Message):
    __slots__ = ("key", "offset", "at_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    key: InternalKey
    offset: int
    at_ms: int
    def __init__(self, key: _Optional[_Union[InternalKey, _Mapping]] = ..., offset: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class InternalTopicsSnapshot(_message.Message):
    __slots__ = ("offsets_high_watermarks", "transactions_high_watermarks", "group_records", "tombstones")
    OFFSETS_HIGH_WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_HIGH_WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    GROUP_RECORDS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    offsets_high_watermarks: _containers.RepeatedScalarFieldContainer[int]
    transactions_high_watermarks: _containers.RepeatedScalarFieldContainer[int]
    group_records: _containers.RepeatedCompositeFieldContainer[InternalGroupRecord]
    tombstones: _containers.RepeatedCompositeFieldContainer[InternalTombstone]
    def __init__(self, offsets_high_watermarks: _Optional[_Iterable[int]] = ..., transactions_high_watermarks: _Optional[_Iterable[int]] = ..., group_records: _Optional[_Iterable[_Union[InternalGroupRecord, _Mapping]]] = ..., tombstones: _Optional[_Iterable[_Union[InternalTombstone, _Mapping]]] = ...) -> None: ...

class GroupsSnapshot(_message.Message):
    __slots__ = ("generations", "offsets", "pending", "last_sequence", "consumer_groups", "configs", "owners", "internal_topics", "share_groups", "share_partitions", "streams_groups")
    class OwnersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SHARE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    SHARE_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_GROUPS_FIELD_NUMBER: _ClassVar[int]
    generations: _containers.RepeatedCompositeFieldContainer[GroupGeneration]
    offsets: _containers.RepeatedCompositeFieldContainer[KeptOffsets]
    pending: _containers.RepeatedCompositeFieldContainer[PendingOffsets]
    last_sequence: int
    consumer_groups: _containers.RepeatedCompositeFieldContainer[_consumer_groups_pb2.ConsumerGroupStep]
    configs: _containers.RepeatedCompositeFieldContainer[_consumer_groups_pb2.GroupConfigs]
    owners: _containers.ScalarMap[str, str]
    internal_topics: InternalTopicsSnapshot
    share_groups: _containers.RepeatedCompositeFieldContainer[_consumer_groups_pb2.ConsumerGroupStep]
    share_partitions: _containers.RepeatedCompositeFieldContainer[_share_pb2.SharePartitionsStep]
    streams_groups: _containers.RepeatedCompositeFieldContainer[_consumer_groups_pb2.StreamsGroupStep]
    def __init__(self, generations: _Optional[_Iterable[_Union[GroupGeneration, _Mapping]]] = ..., offsets: _Optional[_Iterable[_Union[KeptOffsets, _Mapping]]] = ..., pending: _Optional[_Iterable[_Union[PendingOffsets, _Mapping]]] = ..., last_sequence: _Optional[int] = ..., consumer_groups: _Optional[_Iterable[_Union[_consumer_groups_pb2.ConsumerGroupStep, _Mapping]]] = ..., configs: _Optional[_Iterable[_Union[_consumer_groups_pb2.GroupConfigs, _Mapping]]] = ..., owners: _Optional[_Mapping[str, str]] = ..., internal_topics: _Optional[_Union[InternalTopicsSnapshot, _Mapping]] = ..., share_groups: _Optional[_Iterable[_Union[_consumer_groups_pb2.ConsumerGroupStep, _Mapping]]] = ..., share_partitions: _Optional[_Iterable[_Union[_share_pb2.SharePartitionsStep, _Mapping]]] = ..., streams_groups: _Optional[_Iterable[_Union[_consumer_groups_pb2.StreamsGroupStep, _Mapping]]] = ...) -> None: ...
