"""Fetch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import (
    ZERO_UUID,
    Buffers,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    messages,
)


class OffsetForLeaderPartition(NamedTuple):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(since=2)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(NamedTuple):
    topic: String = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


class OffsetForLeaderEpochRequest(NamedTuple):
    replica_id: Annotated[Int32, In(since=3)] = -2
    topics: Sequence[OffsetForLeaderTopic] = ()


class EpochEndOffset(NamedTuple):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, In(since=1)] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(NamedTuple):
    topic: String = ""
    partitions: Sequence[EpochEndOffset] = ()


class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()


class ReplicaState(NamedTuple):
    replica_id: Annotated[Int32, In(since=15)] = -1
    replica_epoch: Annotated[Int64, In(since=15)] = -1


class FetchPartition(NamedTuple):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(since=9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, In(since=12)] = -1
    log_start_offset: Annotated[Int64, In(since=5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(since=17, tag=0)] = ZERO_UUID
    high_watermark: Annotated[Int64, In(since=18, tag=1)] = 9223372036854775807


class FetchTopic(NamedTuple):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(since=13)] = ZERO_UUID
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(NamedTuple):
    topic: Annotated[String, In(since=7, until=12)] = ""
    topic_id: Annotated[Uuid, In(since=13)] = ZERO_UUID
    partitions: Annotated[Sequence[Int32], In(since=7)] = ()


class FetchRequest(NamedTuple):
    cluster_id: Annotated[String | None, In(since=12, tag=0)] = None
    replica_id: Annotated[Int32, In(until=14)] = -1
    replica_state: Annotated[ReplicaState, In(since=15, tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, In(since=3)] = 2147483647
    isolation_level: Annotated[Int8, In(since=4)] = 0
    session_id: Annotated[Int32, In(since=7)] = 0
    session_epoch: Annotated[Int32, In(since=7)] = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Annotated[Sequence[ForgottenTopic], In(since=7)] = ()
    rack_id: Annotated[String, In(since=11)] = ""


class FetchResponseEpochEndOffset(NamedTuple):
    epoch: Annotated[Int32, In(since=12)] = -1
    end_offset: Annotated[Int64, In(since=12)] = -1


class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[Int32, In(since=12)] = -1
    leader_epoch: Annotated[Int32, In(since=12)] = -1


class SnapshotId(NamedTuple):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(NamedTuple):
    producer_id: Annotated[Int64, In(since=4)] = 0
    first_offset: Annotated[Int64, In(since=4)] = 0


class PartitionData(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, In(since=4)] = -1
    log_start_offset: Annotated[Int64, In(since=5)] = -1
    diverging_epoch: Annotated[FetchResponseEpochEndOffset, In(since=12, tag=0)] = (
        FetchResponseEpochEndOffset()
    )
    current_leader: Annotated[LeaderIdAndEpoch, In(since=12, tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, In(since=12, tag=2)] = SnapshotId()
    aborted_transactions: Annotated[Sequence[AbortedTransaction] | None, In(since=4)] = ()
    preferred_read_replica: Annotated[Int32, In(since=11)] = -1
    records: Buffers | None = ()


class FetchableTopicResponse(NamedTuple):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(since=13)] = ZERO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(NamedTuple):
    node_id: Annotated[Int32, In(since=16)] = 0
    host: Annotated[String, In(since=16)] = ""
    port: Annotated[Int32, In(since=16)] = 0
    rack: Annotated[String | None, In(since=16)] = None


class FetchResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    error_code: Annotated[Int16, In(since=7)] = 0
    session_id: Annotated[Int32, In(since=7)] = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], In(since=16, tag=0)] = ()


class ListOffsetsPartition(NamedTuple):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(since=4)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In(until=0)] = 1


class ListOffsetsTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[ListOffsetsPartition] = ()


class ListOffsetsRequest(NamedTuple):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(since=2)] = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: Annotated[Int32, In(since=10)] = 0


class ListOffsetsPartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[Sequence[Int64], In(until=0)] = ()
    timestamp: Annotated[Int64, In(since=1)] = -1
    offset: Annotated[Int64, In(since=1)] = -1
    leader_epoch: Annotated[Int32, In(since=4)] = -1


class ListOffsetsTopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=2)] = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()


OFFSET_FOR_LEADER_EPOCH_REQUEST, OFFSET_FOR_LEADER_EPOCH_RESPONSE = messages(
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    api_key=23,
    versions=(0, 4),
    first_flexible=4,
)

FETCH_REQUEST, FETCH_RESPONSE = messages(
    FetchRequest, FetchResponse, api_key=1, versions=(0, 18), first_flexible=12, is_exact=True
)

LIST_OFFSETS_REQUEST, LIST_OFFSETS_RESPONSE = messages(
    ListOffsetsRequest, ListOffsetsResponse, api_key=2, versions=(0, 11), first_flexible=6
)
