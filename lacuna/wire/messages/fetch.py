"""Fetch. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BUFFERS, INT8, INT16, INT32, INT64, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Buffer, Field, Message, Struct


class ReplicaState(NamedTuple):
    replica_id: int = -1
    replica_epoch: int = -1


class FetchPartition(NamedTuple):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 9223372036854775807


class FetchTopic(NamedTuple):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(NamedTuple):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[int] = ()


class FetchRequest(NamedTuple):
    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState = ReplicaState()
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ""


class EpochEndOffset(NamedTuple):
    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(NamedTuple):
    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(NamedTuple):
    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(NamedTuple):
    producer_id: int = 0
    first_offset: int = 0


class PartitionData(NamedTuple):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = EpochEndOffset()
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    snapshot_id: SnapshotId = SnapshotId()
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int = -1
    records: Sequence[Buffer] | None = ()


class FetchableTopicResponse(NamedTuple):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(NamedTuple):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class FetchResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


_REPLICA_STATE: Final = Struct(
    ReplicaState,
    replica_id=Field(INT32, since=15),
    replica_epoch=Field(INT64, since=15),
)
_FETCH_PARTITION: Final = Struct(
    FetchPartition,
    partition=Field(INT32),
    current_leader_epoch=Field(INT32, since=9),
    fetch_offset=Field(INT64),
    last_fetched_epoch=Field(INT32, since=12),
    log_start_offset=Field(INT64, since=5),
    partition_max_bytes=Field(INT32),
    replica_directory_id=Field(UUID, since=17, tag=0),
    high_watermark=Field(INT64, since=18, tag=1),
)
_FETCH_TOPIC: Final = Struct(
    FetchTopic,
    topic=Field(STRING, until=12),
    topic_id=Field(UUID, since=13),
    partitions=Field(_FETCH_PARTITION, is_array=True),
)
_FORGOTTEN_TOPIC: Final = Struct(
    ForgottenTopic,
    topic=Field(STRING, since=7, until=12),
    topic_id=Field(UUID, since=13),
    partitions=Field(INT32, is_array=True, since=7),
)
_FETCH_REQUEST: Final = Struct(
    FetchRequest,
    cluster_id=Field(STRING, since=12, null_since=12, tag=0),
    replica_id=Field(INT32, until=14),
    replica_state=Field(_REPLICA_STATE, since=15, tag=1),
    max_wait_ms=Field(INT32),
    min_bytes=Field(INT32),
    max_bytes=Field(INT32, since=3),
    isolation_level=Field(INT8, since=4),
    session_id=Field(INT32, since=7),
    session_epoch=Field(INT32, since=7),
    topics=Field(_FETCH_TOPIC, is_array=True),
    forgotten_topics_data=Field(_FORGOTTEN_TOPIC, is_array=True, since=7),
    rack_id=Field(STRING, since=11),
)
FETCH_REQUEST: Final[Message[FetchRequest]] = Message(
    _FETCH_REQUEST, api_key=1, versions=(0, 18), first_flexible=12, is_exact=True
)
_EPOCH_END_OFFSET: Final = Struct(
    EpochEndOffset,
    epoch=Field(INT32, since=12),
    end_offset=Field(INT64, since=12),
)
_LEADER_ID_AND_EPOCH: Final = Struct(
    LeaderIdAndEpoch,
    leader_id=Field(INT32, since=12),
    leader_epoch=Field(INT32, since=12),
)
_SNAPSHOT_ID: Final = Struct(
    SnapshotId,
    end_offset=Field(INT64),
    epoch=Field(INT32),
)
_ABORTED_TRANSACTION: Final = Struct(
    AbortedTransaction,
    producer_id=Field(INT64, since=4),
    first_offset=Field(INT64, since=4),
)
_PARTITION_DATA: Final = Struct(
    PartitionData,
    partition_index=Field(INT32),
    error_code=Field(INT16),
    high_watermark=Field(INT64),
    last_stable_offset=Field(INT64, since=4),
    log_start_offset=Field(INT64, since=5),
    diverging_epoch=Field(_EPOCH_END_OFFSET, since=12, tag=0),
    current_leader=Field(_LEADER_ID_AND_EPOCH, since=12, tag=1),
    snapshot_id=Field(_SNAPSHOT_ID, since=12, tag=2),
    aborted_transactions=Field(_ABORTED_TRANSACTION, is_array=True, since=4, null_since=4),
    preferred_read_replica=Field(INT32, since=11),
    records=Field(BUFFERS, null_since=0),
)
_FETCHABLE_TOPIC_RESPONSE: Final = Struct(
    FetchableTopicResponse,
    topic=Field(STRING, until=12),
    topic_id=Field(UUID, since=13),
    partitions=Field(_PARTITION_DATA, is_array=True),
)
_NODE_ENDPOINT: Final = Struct(
    NodeEndpoint,
    node_id=Field(INT32, since=16),
    host=Field(STRING, since=16),
    port=Field(INT32, since=16),
    rack=Field(STRING, since=16, null_since=16),
)
_FETCH_RESPONSE: Final = Struct(
    FetchResponse,
    throttle_time_ms=Field(INT32, since=1),
    error_code=Field(INT16, since=7),
    session_id=Field(INT32, since=7),
    responses=Field(_FETCHABLE_TOPIC_RESPONSE, is_array=True),
    node_endpoints=Field(_NODE_ENDPOINT, is_array=True, since=16, tag=0),
)
FETCH_RESPONSE: Final[Message[FetchResponse]] = Message(
    _FETCH_RESPONSE, api_key=1, versions=(0, 18), first_flexible=12
)
