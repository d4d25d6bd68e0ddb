"""OffsetCommit. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, Int64, String, Uuid, messages


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


OFFSET_COMMIT_REQUEST, OFFSET_COMMIT_RESPONSE = messages(
    OffsetCommitRequest, OffsetCommitResponse, api_key=8, versions=(0, 10), first_flexible=8
)
