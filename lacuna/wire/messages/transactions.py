"""Transactions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, Int64, String, messages


class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class AddPartitionsToTxnTopic(NamedTuple):
    name: String = ""
    partitions: Sequence[Int32] = ()


class AddPartitionsToTxnTransaction(NamedTuple):
    transactional_id: Annotated[String, In(since=4)] = ""
    producer_id: Annotated[Int64, In(since=4)] = 0
    producer_epoch: Annotated[Int16, In(since=4)] = 0
    verify_only: Annotated[Bool, In(since=4)] = False
    topics: Annotated[Sequence[AddPartitionsToTxnTopic], In(since=4)] = ()


class AddPartitionsToTxnRequest(NamedTuple):
    transactions: Annotated[Sequence[AddPartitionsToTxnTransaction], In(since=4)] = ()
    v3_and_below_transactional_id: Annotated[String, In(until=3)] = ""
    v3_and_below_producer_id: Annotated[Int64, In(until=3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, In(until=3)] = 0
    v3_and_below_topics: Annotated[Sequence[AddPartitionsToTxnTopic], In(until=3)] = ()


class AddPartitionsToTxnPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(NamedTuple):
    name: String = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


class AddPartitionsToTxnResult(NamedTuple):
    transactional_id: Annotated[String, In(since=4)] = ""
    topic_results: Annotated[Sequence[AddPartitionsToTxnTopicResult], In(since=4)] = ()


class AddPartitionsToTxnResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In(since=4)] = 0
    results_by_transaction: Annotated[Sequence[AddPartitionsToTxnResult], In(since=4)] = ()
    results_by_topic_v3_and_below: Annotated[
        Sequence[AddPartitionsToTxnTopicResult], In(until=3)
    ] = ()


class TopicRequest(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class DescribeProducersRequest(NamedTuple):
    topics: Sequence[TopicRequest] = ()


class ProducerState(NamedTuple):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Sequence[ProducerState] = ()


class TopicResponse(NamedTuple):
    name: String = ""
    partitions: Sequence[PartitionResponse] = ()


class DescribeProducersResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    topics: Sequence[TopicResponse] = ()


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: Sequence[String] = ()


class TopicData(NamedTuple):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class TransactionState(NamedTuple):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Sequence[TopicData] = ()


class DescribeTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    transaction_states: Sequence[TransactionState] = ()


class EndTxnRequest(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, In(since=5)] = -1
    producer_epoch: Annotated[Int16, In(since=5)] = -1


class InitProducerIdRequest(NamedTuple):
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(since=3)] = -1
    producer_epoch: Annotated[Int16, In(since=3)] = -1
    enable2_pc: Annotated[Bool, In(since=6)] = False
    keep_prepared_txn: Annotated[Bool, In(since=6)] = False


class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, In(since=6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, In(since=6)] = -1


class ListTransactionsRequest(NamedTuple):
    state_filters: Sequence[String] = ()
    producer_id_filters: Sequence[Int64] = ()
    duration_filter: Annotated[Int64, In(since=1)] = -1
    transactional_id_pattern: Annotated[String | None, In(since=2)] = None


class ListTransactionsResponseTransactionState(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[String] = ()
    transaction_states: Sequence[ListTransactionsResponseTransactionState] = ()


class WritableTxnMarkerTopic(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class WritableTxnMarker(NamedTuple):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, In(since=2)] = 0


class WriteTxnMarkersRequest(NamedTuple):
    markers: Sequence[WritableTxnMarker] = ()


class WritableTxnMarkerPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(NamedTuple):
    name: String = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


class WritableTxnMarkerResult(NamedTuple):
    producer_id: Int64 = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


class WriteTxnMarkersResponse(NamedTuple):
    markers: Sequence[WritableTxnMarkerResult] = ()


ADD_OFFSETS_TO_TXN_REQUEST, ADD_OFFSETS_TO_TXN_RESPONSE = messages(
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, api_key=25, versions=(0, 4), first_flexible=3
)

ADD_PARTITIONS_TO_TXN_REQUEST, ADD_PARTITIONS_TO_TXN_RESPONSE = messages(
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    api_key=24,
    versions=(0, 5),
    first_flexible=3,
)

DESCRIBE_PRODUCERS_REQUEST, DESCRIBE_PRODUCERS_RESPONSE = messages(
    DescribeProducersRequest,
    DescribeProducersResponse,
    api_key=61,
    versions=(0, 0),
    first_flexible=0,
)

DESCRIBE_TRANSACTIONS_REQUEST, DESCRIBE_TRANSACTIONS_RESPONSE = messages(
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    api_key=65,
    versions=(0, 0),
    first_flexible=0,
)

END_TXN_REQUEST, END_TXN_RESPONSE = messages(
    EndTxnRequest, EndTxnResponse, api_key=26, versions=(0, 5), first_flexible=3
)

INIT_PRODUCER_ID_REQUEST, INIT_PRODUCER_ID_RESPONSE = messages(
    InitProducerIdRequest, InitProducerIdResponse, api_key=22, versions=(0, 6), first_flexible=2
)

LIST_TRANSACTIONS_REQUEST, LIST_TRANSACTIONS_RESPONSE = messages(
    ListTransactionsRequest, ListTransactionsResponse, api_key=66, versions=(0, 2), first_flexible=0
)

WRITE_TXN_MARKERS_REQUEST, WRITE_TXN_MARKERS_RESPONSE = messages(
    WriteTxnMarkersRequest, WriteTxnMarkersResponse, api_key=27, versions=(0, 2), first_flexible=1
)
