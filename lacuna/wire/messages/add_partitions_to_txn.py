"""AddPartitionsToTxn. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class AddPartitionsToTxnTopic(NamedTuple):
    name: str = ""
    partitions: Sequence[int] = ()


class AddPartitionsToTxnTransaction(NamedTuple):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()


class AddPartitionsToTxnRequest(NamedTuple):
    transactions: Sequence[AddPartitionsToTxnTransaction] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = ()


class AddPartitionsToTxnPartitionResult(NamedTuple):
    partition_index: int = 0
    partition_error_code: int = 0


class AddPartitionsToTxnTopicResult(NamedTuple):
    name: str = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


class AddPartitionsToTxnResult(NamedTuple):
    transactional_id: str = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


class AddPartitionsToTxnResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = ()
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = ()


_ADD_PARTITIONS_TO_TXN_TOPIC: Final = Struct(
    AddPartitionsToTxnTopic,
    name=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_ADD_PARTITIONS_TO_TXN_TRANSACTION: Final = Struct(
    AddPartitionsToTxnTransaction,
    transactional_id=Field(STRING, since=4),
    producer_id=Field(INT64, since=4),
    producer_epoch=Field(INT16, since=4),
    verify_only=Field(BOOL, since=4),
    topics=Field(_ADD_PARTITIONS_TO_TXN_TOPIC, is_array=True, since=4),
)
_ADD_PARTITIONS_TO_TXN_REQUEST: Final = Struct(
    AddPartitionsToTxnRequest,
    transactions=Field(_ADD_PARTITIONS_TO_TXN_TRANSACTION, is_array=True, since=4),
    v3_and_below_transactional_id=Field(STRING, until=3),
    v3_and_below_producer_id=Field(INT64, until=3),
    v3_and_below_producer_epoch=Field(INT16, until=3),
    v3_and_below_topics=Field(_ADD_PARTITIONS_TO_TXN_TOPIC, is_array=True, until=3),
)
ADD_PARTITIONS_TO_TXN_REQUEST: Final[Message[AddPartitionsToTxnRequest]] = Message(
    _ADD_PARTITIONS_TO_TXN_REQUEST, api_key=24, versions=(0, 5), first_flexible=3
)
_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT: Final = Struct(
    AddPartitionsToTxnPartitionResult,
    partition_index=Field(INT32),
    partition_error_code=Field(INT16),
)
_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT: Final = Struct(
    AddPartitionsToTxnTopicResult,
    name=Field(STRING),
    results_by_partition=Field(_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT, is_array=True),
)
_ADD_PARTITIONS_TO_TXN_RESULT: Final = Struct(
    AddPartitionsToTxnResult,
    transactional_id=Field(STRING, since=4),
    topic_results=Field(_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT, is_array=True, since=4),
)
_ADD_PARTITIONS_TO_TXN_RESPONSE: Final = Struct(
    AddPartitionsToTxnResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16, since=4),
    results_by_transaction=Field(_ADD_PARTITIONS_TO_TXN_RESULT, is_array=True, since=4),
    results_by_topic_v3_and_below=Field(
        _ADD_PARTITIONS_TO_TXN_TOPIC_RESULT, is_array=True, until=3
    ),
)
ADD_PARTITIONS_TO_TXN_RESPONSE: Final[Message[AddPartitionsToTxnResponse]] = Message(
    _ADD_PARTITIONS_TO_TXN_RESPONSE, api_key=24, versions=(0, 5), first_flexible=3
)
