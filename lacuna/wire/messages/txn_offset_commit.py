"""TxnOffsetCommit. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class TxnOffsetCommitRequestPartition(NamedTuple):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()


class TxnOffsetCommitRequest(NamedTuple):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()


class TxnOffsetCommitResponsePartition(NamedTuple):
    partition_index: int = 0
    error_code: int = 0


class TxnOffsetCommitResponseTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()


class TxnOffsetCommitResponse(NamedTuple):
    throttle_time_ms: int = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()


_TXN_OFFSET_COMMIT_REQUEST_PARTITION: Final = Struct(
    TxnOffsetCommitRequestPartition,
    partition_index=Field(INT32),
    committed_offset=Field(INT64),
    committed_leader_epoch=Field(INT32, since=2),
    committed_metadata=Field(STRING, null_since=0),
)
_TXN_OFFSET_COMMIT_REQUEST_TOPIC: Final = Struct(
    TxnOffsetCommitRequestTopic,
    name=Field(STRING),
    partitions=Field(_TXN_OFFSET_COMMIT_REQUEST_PARTITION, is_array=True),
)
_TXN_OFFSET_COMMIT_REQUEST: Final = Struct(
    TxnOffsetCommitRequest,
    transactional_id=Field(STRING),
    group_id=Field(STRING),
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    generation_id=Field(INT32, since=3),
    member_id=Field(STRING, since=3),
    group_instance_id=Field(STRING, since=3, null_since=3),
    topics=Field(_TXN_OFFSET_COMMIT_REQUEST_TOPIC, is_array=True),
)
TXN_OFFSET_COMMIT_REQUEST: Final[Message[TxnOffsetCommitRequest]] = Message(
    _TXN_OFFSET_COMMIT_REQUEST, api_key=28, versions=(0, 5), first_flexible=3
)
_TXN_OFFSET_COMMIT_RESPONSE_PARTITION: Final = Struct(
    TxnOffsetCommitResponsePartition,
    partition_index=Field(INT32),
    error_code=Field(INT16),
)
_TXN_OFFSET_COMMIT_RESPONSE_TOPIC: Final = Struct(
    TxnOffsetCommitResponseTopic,
    name=Field(STRING),
    partitions=Field(_TXN_OFFSET_COMMIT_RESPONSE_PARTITION, is_array=True),
)
_TXN_OFFSET_COMMIT_RESPONSE: Final = Struct(
    TxnOffsetCommitResponse,
    throttle_time_ms=Field(INT32),
    topics=Field(_TXN_OFFSET_COMMIT_RESPONSE_TOPIC, is_array=True),
)
TXN_OFFSET_COMMIT_RESPONSE: Final[Message[TxnOffsetCommitResponse]] = Message(
    _TXN_OFFSET_COMMIT_RESPONSE, api_key=28, versions=(0, 5), first_flexible=3
)
