"""Requests about transactions."""

from typing import Final

from lacuna.wire.messages import transactions

DESCRIBE_TRANSACTIONS: Final = (
    transactions.DESCRIBE_TRANSACTIONS_REQUEST,
    transactions.DESCRIBE_TRANSACTIONS_RESPONSE,
    0,
)
LIST_TRANSACTIONS: Final = (
    transactions.LIST_TRANSACTIONS_REQUEST,
    transactions.LIST_TRANSACTIONS_RESPONSE,
    1,
)
WRITE_TXN_MARKERS: Final = (
    transactions.WRITE_TXN_MARKERS_REQUEST,
    transactions.WRITE_TXN_MARKERS_RESPONSE,
    1,
)
