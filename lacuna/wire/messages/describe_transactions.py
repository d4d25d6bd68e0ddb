"""DescribeTransactions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: Sequence[str] = ()


class TopicData(NamedTuple):
    topic: str = ""
    partitions: Sequence[int] = ()


class TransactionState(NamedTuple):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Sequence[TopicData] = ()


class DescribeTransactionsResponse(NamedTuple):
    throttle_time_ms: int = 0
    transaction_states: Sequence[TransactionState] = ()


_DESCRIBE_TRANSACTIONS_REQUEST: Final = Struct(
    DescribeTransactionsRequest,
    transactional_ids=Field(STRING, is_array=True),
)
DESCRIBE_TRANSACTIONS_REQUEST: Final[Message[DescribeTransactionsRequest]] = Message(
    _DESCRIBE_TRANSACTIONS_REQUEST, api_key=65, versions=(0, 0), first_flexible=0
)
_TOPIC_DATA: Final = Struct(
    TopicData,
    topic=Field(STRING),
    partitions=Field(INT32, is_array=True),
)
_TRANSACTION_STATE: Final = Struct(
    TransactionState,
    error_code=Field(INT16),
    transactional_id=Field(STRING),
    transaction_state=Field(STRING),
    transaction_timeout_ms=Field(INT32),
    transaction_start_time_ms=Field(INT64),
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    topics=Field(_TOPIC_DATA, is_array=True),
)
_DESCRIBE_TRANSACTIONS_RESPONSE: Final = Struct(
    DescribeTransactionsResponse,
    throttle_time_ms=Field(INT32),
    transaction_states=Field(_TRANSACTION_STATE, is_array=True),
)
DESCRIBE_TRANSACTIONS_RESPONSE: Final[Message[DescribeTransactionsResponse]] = Message(
    _DESCRIBE_TRANSACTIONS_RESPONSE, api_key=65, versions=(0, 0), first_flexible=0
)
