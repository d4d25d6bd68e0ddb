"""Offsets. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, Bool, In, Int16, Int32, Int64, String, Uuid, messages


class OffsetCommitRequestPartition(NamedTuple):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(since=6)] = -1
    commit_timestamp: Annotated[Int64, In(since=1, until=1)] = -1
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(NamedTuple):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partitions: Sequence[OffsetCommitRequestPartition] = ()


class OffsetCommitRequest(NamedTuple):
    group_id: String = ""
    generation_id_or_member_epoch: Annotated[Int32, In(since=1)] = -1
    member_id: Annotated[String, In(since=1)] = ""
    group_instance_id: Annotated[String | None, In(since=7)] = None
    retention_time_ms: Annotated[Int64, In(since=2, until=4)] = -1
    topics: Sequence[OffsetCommitRequestTopic] = ()


class OffsetCommitResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(NamedTuple):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partitions: Sequence[OffsetCommitResponsePartition] = ()


class OffsetCommitResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=3)] = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()


class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


class OffsetDeleteRequest(NamedTuple):
    group_id: String = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


class OffsetDeleteResponsePartition(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


class OffsetDeleteResponse(NamedTuple):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()


class OffsetFetchRequestTopic(NamedTuple):
    name: Annotated[String, In(until=7)] = ""
    partition_indexes: Annotated[Sequence[Int32], In(until=7)] = ()


class OffsetFetchRequestTopics(NamedTuple):
    name: Annotated[String, In(since=8, until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partition_indexes: Annotated[Sequence[Int32], In(since=8)] = ()


class OffsetFetchRequestGroup(NamedTuple):
    group_id: Annotated[String, In(since=8)] = ""
    member_id: Annotated[String | None, In(since=9)] = None
    member_epoch: Annotated[Int32, In(since=9)] = -1
    topics: Annotated[Sequence[OffsetFetchRequestTopics] | None, In(since=8)] = ()


class OffsetFetchRequest(NamedTuple):
    group_id: Annotated[String, In(until=7)] = ""
    topics: Annotated[Sequence[OffsetFetchRequestTopic] | None, In(until=7, null_since=2)] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], In(since=8)] = ()
    require_stable: Annotated[Bool, In(since=7)] = False


class OffsetFetchResponsePartition(NamedTuple):
    partition_index: Annotated[Int32, In(until=7)] = 0
    committed_offset: Annotated[Int64, In(until=7)] = 0
    committed_leader_epoch: Annotated[Int32, In(since=5, until=7)] = -1
    metadata: Annotated[String | None, In(until=7)] = ""
    error_code: Annotated[Int16, In(until=7)] = 0


class OffsetFetchResponseTopic(NamedTuple):
    name: Annotated[String, In(until=7)] = ""
    partitions: Annotated[Sequence[OffsetFetchResponsePartition], In(until=7)] = ()


class OffsetFetchResponsePartitions(NamedTuple):
    partition_index: Annotated[Int32, In(since=8)] = 0
    committed_offset: Annotated[Int64, In(since=8)] = 0
    committed_leader_epoch: Annotated[Int32, In(since=8)] = -1
    metadata: Annotated[String | None, In(since=8)] = ""
    error_code: Annotated[Int16, In(since=8)] = 0


class OffsetFetchResponseTopics(NamedTuple):
    name: Annotated[String, In(since=8, until=9)] = ""
    topic_id: Annotated[Uuid, In(since=10)] = ZERO_UUID
    partitions: Annotated[Sequence[OffsetFetchResponsePartitions], In(since=8)] = ()


class OffsetFetchResponseGroup(NamedTuple):
    group_id: Annotated[String, In(since=8)] = ""
    topics: Annotated[Sequence[OffsetFetchResponseTopics], In(since=8)] = ()
    error_code: Annotated[Int16, In(since=8)] = 0


class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=3)] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], In(until=7)] = ()
    error_code: Annotated[Int16, In(since=2, until=7)] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], In(since=8)] = ()


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


OFFSET_COMMIT_REQUEST, OFFSET_COMMIT_RESPONSE = messages(
    OffsetCommitRequest, OffsetCommitResponse, api_key=8, versions=(0, 10), first_flexible=8
)

OFFSET_DELETE_REQUEST, OFFSET_DELETE_RESPONSE = messages(
    OffsetDeleteRequest, OffsetDeleteResponse, api_key=47, versions=(0, 0), first_flexible=None
)

OFFSET_FETCH_REQUEST, OFFSET_FETCH_RESPONSE = messages(
    OffsetFetchRequest, OffsetFetchResponse, api_key=9, versions=(0, 10), first_flexible=6
)

TXN_OFFSET_COMMIT_REQUEST, TXN_OFFSET_COMMIT_RESPONSE = messages(
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, api_key=28, versions=(0, 6), first_flexible=3
)
