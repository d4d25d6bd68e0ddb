"""Produce. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, RECORDS, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class PartitionProduceData(NamedTuple):
    index_: int = 0
    records: memoryview | None = None


class TopicProduceData(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: Sequence[PartitionProduceData] = ()


class ProduceRequest(NamedTuple):
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: Sequence[TopicProduceData] = ()


class BatchIndexAndErrorMessage(NamedTuple):
    batch_index: int = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(NamedTuple):
    leader_id: int = -1
    leader_epoch: int = -1


class PartitionProduceResponse(NamedTuple):
    index_: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class TopicProduceResponse(NamedTuple):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: Sequence[PartitionProduceResponse] = ()


class NodeEndpoint(NamedTuple):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ProduceResponse(NamedTuple):
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


_PARTITION_PRODUCE_DATA: Final = Struct(
    PartitionProduceData,
    index_=Field(INT32),
    records=Field(RECORDS, null_since=0),
)
_TOPIC_PRODUCE_DATA: Final = Struct(
    TopicProduceData,
    name=Field(STRING, until=12),
    topic_id=Field(UUID, since=13),
    partition_data=Field(_PARTITION_PRODUCE_DATA, is_array=True),
)
_PRODUCE_REQUEST: Final = Struct(
    ProduceRequest,
    transactional_id=Field(STRING, since=3, null_since=3),
    acks=Field(INT16),
    timeout_ms=Field(INT32),
    topic_data=Field(_TOPIC_PRODUCE_DATA, is_array=True),
)
PRODUCE_REQUEST: Final[Message[ProduceRequest]] = Message(
    _PRODUCE_REQUEST, api_key=0, versions=(0, 13), first_flexible=9, is_exact=True
)
_BATCH_INDEX_AND_ERROR_MESSAGE: Final = Struct(
    BatchIndexAndErrorMessage,
    batch_index=Field(INT32, since=8),
    batch_index_error_message=Field(STRING, since=8, null_since=8),
)
_LEADER_ID_AND_EPOCH: Final = Struct(
    LeaderIdAndEpoch,
    leader_id=Field(INT32, since=10),
    leader_epoch=Field(INT32, since=10),
)
_PARTITION_PRODUCE_RESPONSE: Final = Struct(
    PartitionProduceResponse,
    index_=Field(INT32),
    error_code=Field(INT16),
    base_offset=Field(INT64),
    log_append_time_ms=Field(INT64, since=2),
    log_start_offset=Field(INT64, since=5),
    record_errors=Field(_BATCH_INDEX_AND_ERROR_MESSAGE, is_array=True, since=8),
    error_message=Field(STRING, since=8, null_since=8),
    current_leader=Field(_LEADER_ID_AND_EPOCH, since=10, tag=0),
)
_TOPIC_PRODUCE_RESPONSE: Final = Struct(
    TopicProduceResponse,
    name=Field(STRING, until=12),
    topic_id=Field(UUID, since=13),
    partition_responses=Field(_PARTITION_PRODUCE_RESPONSE, is_array=True),
)
_NODE_ENDPOINT: Final = Struct(
    NodeEndpoint,
    node_id=Field(INT32, since=10),
    host=Field(STRING, since=10),
    port=Field(INT32, since=10),
    rack=Field(STRING, since=10, null_since=10),
)
_PRODUCE_RESPONSE: Final = Struct(
    ProduceResponse,
    responses=Field(_TOPIC_PRODUCE_RESPONSE, is_array=True),
    throttle_time_ms=Field(INT32, since=1),
    node_endpoints=Field(_NODE_ENDPOINT, is_array=True, since=10, tag=0),
)
PRODUCE_RESPONSE: Final[Message[ProduceResponse]] = Message(
    _PRODUCE_RESPONSE, api_key=0, versions=(0, 13), first_flexible=9
)
