"""TxnOffsetCommit. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, Int64, String, Uuid, messages


class TxnOffsetCommitRequestPartition(NamedTuple):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(since=2)] = -1
    committed_metadata: String | None = ""


class TxnOffsetCommitRequestTopic(NamedTuple):
    name: Annotated[String, In(until=5)] = ""
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()


class TxnOffsetCommitRequest(NamedTuple):
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, In(since=3)] = -1
    member_id: Annotated[String, In(since=3)] = ""
    group_instance_id: Annotated[String | None, In(since=3)] = None
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()


class TxnOffsetCommitResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(NamedTuple):
    name: Annotated[String, In(until=5)] = ""
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()


class TxnOffsetCommitResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()


TXN_OFFSET_COMMIT_REQUEST, TXN_OFFSET_COMMIT_RESPONSE = messages(
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, api_key=28, versions=(0, 6), first_flexible=3
)
