"""Share records. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import (
    ZERO_UUID,
    Bool,
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


class AcknowledgementBatch(NamedTuple):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Sequence[Int8] = ()


class AcknowledgePartition(NamedTuple):
    partition_index: Int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class AcknowledgeTopic(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[AcknowledgePartition] = ()


class ShareAcknowledgeRequest(NamedTuple):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, In(since=2)] = False
    topics: Sequence[AcknowledgeTopic] = ()


class LeaderIdAndEpoch(NamedTuple):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class PartitionData(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(NamedTuple):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareAcknowledgeResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, In(since=2)] = 0
    responses: Sequence[ShareAcknowledgeTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


class FetchPartition(NamedTuple):
    partition_index: Int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class FetchTopic(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


class ShareFetchRequest(NamedTuple):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Annotated[Int32, In(since=1)] = 0
    batch_size: Annotated[Int32, In(since=1)] = 0
    share_acquire_mode: Annotated[Int8, In(since=2)] = 0
    is_renew_ack: Annotated[Bool, In(since=2)] = False
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()


class AcquiredRecords(NamedTuple):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class ShareFetchResponsePartitionData(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Buffers = ()
    acquired_records: Sequence[AcquiredRecords] = ()


class ShareFetchableTopicResponse(NamedTuple):
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[ShareFetchResponsePartitionData] = ()


class ShareFetchResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, In(since=1)] = 0
    responses: Sequence[ShareFetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


SHARE_ACKNOWLEDGE_REQUEST, SHARE_ACKNOWLEDGE_RESPONSE = messages(
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, api_key=79, versions=(1, 2), first_flexible=0
)

SHARE_FETCH_REQUEST, SHARE_FETCH_RESPONSE = messages(
    ShareFetchRequest, ShareFetchResponse, api_key=78, versions=(1, 2), first_flexible=0
)
