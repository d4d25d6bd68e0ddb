"""ListTransactions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int16, Int32, Int64, String, messages


class ListTransactionsRequest(NamedTuple):
    state_filters: Sequence[String] = ()
    producer_id_filters: Sequence[Int64] = ()
    duration_filter: Annotated[Int64, In(since=1)] = -1
    transactional_id_pattern: Annotated[String | None, In(since=2)] = None


class TransactionState(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[String] = ()
    transaction_states: Sequence[TransactionState] = ()


LIST_TRANSACTIONS_REQUEST, LIST_TRANSACTIONS_RESPONSE = messages(
    ListTransactionsRequest, ListTransactionsResponse, api_key=66, versions=(0, 2), first_flexible=0
)
