"""AddPartitionsToTxn. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, Int64, String, messages


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


ADD_PARTITIONS_TO_TXN_REQUEST, ADD_PARTITIONS_TO_TXN_RESPONSE = messages(
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    api_key=24,
    versions=(0, 5),
    first_flexible=3,
)
