from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Footer(_message.Message):
    __slots__ = ("cluster_id", "lease_id", "sequence", "has_true_offsets", "journal_position", "slices")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HAS_TRUE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_POSITION_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    lease_id: int
    sequence: int
    has_true_offsets: bool
    journal_position: int
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    def __init__(self, cluster_id: _Optional[str] = ..., lease_id: _Optional[int] = ..., sequence: _Optional[int] = ..., has_true_offsets: _Optional[bool] = ..., journal_position: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("topic_id", "partition", "base_offset", "block_sizes", "block_crcs", "block_offset_counts")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_CRCS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_OFFSET_COUNTS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    base_offset: int
    block_sizes: _containers.RepeatedScalarFieldContainer[int]
    block_crcs: _containers.RepeatedScalarFieldContainer[int]
    block_offset_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., base_offset: _Optional[int] = ..., block_sizes: _Optional[_Iterable[int]] = ..., block_crcs: _Optional[_Iterable[int]] = ..., block_offset_counts: _Optional[_Iterable[int]] = ...) -> None: ...
