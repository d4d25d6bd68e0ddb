"""Produce. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, Int64, Records, String, Uuid, messages


class PartitionProduceData(NamedTuple):
    index_: Int32 = 0
    records: Records | None = None


class TopicProduceData(NamedTuple):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(since=13)] = ZERO_UUID
    partition_data: Sequence[PartitionProduceData] = ()


class ProduceRequest(NamedTuple):
    transactional_id: Annotated[String | None, In(since=3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Sequence[TopicProduceData] = ()


class BatchIndexAndErrorMessage(NamedTuple):
    batch_index: Annotated[Int32, In(since=8)] = 0
    batch_index_error_message: Annotated[String | None, In(since=8)] = None


class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[Int32, In(since=10)] = -1
    leader_epoch: Annotated[Int32, In(since=10)] = -1


class PartitionProduceResponse(NamedTuple):
    index_: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, In(since=2)] = -1
    log_start_offset: Annotated[Int64, In(since=5)] = -1
    record_errors: Annotated[Sequence[BatchIndexAndErrorMessage], In(since=8)] = ()
    error_message: Annotated[String | None, In(since=8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, In(since=10, tag=0)] = LeaderIdAndEpoch()


class TopicProduceResponse(NamedTuple):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(since=13)] = ZERO_UUID
    partition_responses: Sequence[PartitionProduceResponse] = ()


class NodeEndpoint(NamedTuple):
    node_id: Annotated[Int32, In(since=10)] = 0
    host: Annotated[String, In(since=10)] = ""
    port: Annotated[Int32, In(since=10)] = 0
    rack: Annotated[String | None, In(since=10)] = None


class ProduceResponse(NamedTuple):
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    node_endpoints: Annotated[Sequence[NodeEndpoint], In(since=10, tag=0)] = ()


PRODUCE_REQUEST, PRODUCE_RESPONSE = messages(
    ProduceRequest, ProduceResponse, api_key=0, versions=(0, 13), first_flexible=9, is_exact=True
)
