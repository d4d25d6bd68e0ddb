"""AddOffsetsToTxn. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0


_ADD_OFFSETS_TO_TXN_REQUEST: Final = Struct(
    AddOffsetsToTxnRequest,
    transactional_id=Field(STRING),
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    group_id=Field(STRING),
)
ADD_OFFSETS_TO_TXN_REQUEST: Final[Message[AddOffsetsToTxnRequest]] = Message(
    _ADD_OFFSETS_TO_TXN_REQUEST, api_key=25, versions=(0, 4), first_flexible=3
)
_ADD_OFFSETS_TO_TXN_RESPONSE: Final = Struct(
    AddOffsetsToTxnResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
)
ADD_OFFSETS_TO_TXN_RESPONSE: Final[Message[AddOffsetsToTxnResponse]] = Message(
    _ADD_OFFSETS_TO_TXN_RESPONSE, api_key=25, versions=(0, 4), first_flexible=3
)
