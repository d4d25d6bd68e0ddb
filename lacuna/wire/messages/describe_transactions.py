"""DescribeTransactions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, Int64, String, messages


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


DESCRIBE_TRANSACTIONS_REQUEST, DESCRIBE_TRANSACTIONS_RESPONSE = messages(
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    api_key=65,
    versions=(0, 0),
    first_flexible=0,
)
