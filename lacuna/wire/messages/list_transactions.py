"""ListTransactions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class ListTransactionsRequest(NamedTuple):
    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


class TransactionState(NamedTuple):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: Sequence[str] = ()
    transaction_states: Sequence[TransactionState] = ()


_LIST_TRANSACTIONS_REQUEST: Final = Struct(
    ListTransactionsRequest,
    state_filters=Field(STRING, is_array=True),
    producer_id_filters=Field(INT64, is_array=True),
    duration_filter=Field(INT64, since=1),
    transactional_id_pattern=Field(STRING, since=2, null_since=2),
)
LIST_TRANSACTIONS_REQUEST: Final[Message[ListTransactionsRequest]] = Message(
    _LIST_TRANSACTIONS_REQUEST, api_key=66, versions=(0, 2), first_flexible=0
)
_TRANSACTION_STATE: Final = Struct(
    TransactionState,
    transactional_id=Field(STRING),
    producer_id=Field(INT64),
    transaction_state=Field(STRING),
)
_LIST_TRANSACTIONS_RESPONSE: Final = Struct(
    ListTransactionsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    unknown_state_filters=Field(STRING, is_array=True),
    transaction_states=Field(_TRANSACTION_STATE, is_array=True),
)
LIST_TRANSACTIONS_RESPONSE: Final[Message[ListTransactionsResponse]] = Message(
    _LIST_TRANSACTIONS_RESPONSE, api_key=66, versions=(0, 2), first_flexible=0
)
