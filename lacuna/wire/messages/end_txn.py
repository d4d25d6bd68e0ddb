"""EndTxn. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class EndTxnRequest(NamedTuple):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


class EndTxnResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


_END_TXN_REQUEST: Final = Struct(
    EndTxnRequest,
    transactional_id=Field(STRING),
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    committed=Field(BOOL),
)
END_TXN_REQUEST: Final[Message[EndTxnRequest]] = Message(
    _END_TXN_REQUEST, api_key=26, versions=(0, 5), first_flexible=3
)
_END_TXN_RESPONSE: Final = Struct(
    EndTxnResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    producer_id=Field(INT64, since=5),
    producer_epoch=Field(INT16, since=5),
)
END_TXN_RESPONSE: Final[Message[EndTxnResponse]] = Message(
    _END_TXN_RESPONSE, api_key=26, versions=(0, 5), first_flexible=3
)
