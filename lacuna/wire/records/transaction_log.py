"""TransactionLog. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, Int64, Message, String


class TransactionLogKey(NamedTuple):
    transactional_id: Annotated[String, In(until=0)] = ""


class PartitionsSchema(NamedTuple):
    topic: String = ""
    partition_ids: Sequence[Int32] = ()


class TransactionLogValue(NamedTuple):
    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, In(tag=0)] = -1
    next_producer_id: Annotated[Int64, In(tag=1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, In(tag=3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Sequence[PartitionsSchema] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, In(tag=2)] = 0


TRANSACTION_LOG_KEY: Final = Message(
    TransactionLogKey, api_key=0, versions=(0, 0), first_flexible=None
)

TRANSACTION_LOG_VALUE: Final = Message(
    TransactionLogValue, api_key=0, versions=(0, 1), first_flexible=1
)
