"""TransactionLog. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class TransactionLogKey(NamedTuple):
    transactional_id: str = ""


class PartitionsSchema(NamedTuple):
    topic: str = ""
    partition_ids: Sequence[int] = ()


class TransactionLogValue(NamedTuple):
    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: Sequence[PartitionsSchema] | None = ()
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0


_TRANSACTION_LOG_KEY: Final = Struct(
    TransactionLogKey,
    transactional_id=Field(STRING, until=0),
)
TRANSACTION_LOG_KEY: Final[Message[TransactionLogKey]] = Message(
    _TRANSACTION_LOG_KEY, api_key=0, versions=(0, 0), first_flexible=None
)
_PARTITIONS_SCHEMA: Final = Struct(
    PartitionsSchema,
    topic=Field(STRING),
    partition_ids=Field(INT32, is_array=True),
)
_TRANSACTION_LOG_VALUE: Final = Struct(
    TransactionLogValue,
    producer_id=Field(INT64),
    previous_producer_id=Field(INT64, tag=0),
    next_producer_id=Field(INT64, tag=1),
    producer_epoch=Field(INT16),
    next_producer_epoch=Field(INT16, tag=3),
    transaction_timeout_ms=Field(INT32),
    transaction_status=Field(INT8),
    transaction_partitions=Field(_PARTITIONS_SCHEMA, is_array=True, null_since=0),
    transaction_last_update_timestamp_ms=Field(INT64),
    transaction_start_timestamp_ms=Field(INT64),
    client_transaction_version=Field(INT16, tag=2),
)
TRANSACTION_LOG_VALUE: Final[Message[TransactionLogValue]] = Message(
    _TRANSACTION_LOG_VALUE, api_key=0, versions=(0, 1), first_flexible=1
)
