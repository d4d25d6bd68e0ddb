from lacuna.controlplane.v1 import cluster_pb2 as _cluster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
