"""InitProducerId. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class InitProducerIdRequest(NamedTuple):
    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


_INIT_PRODUCER_ID_REQUEST: Final = Struct(
    InitProducerIdRequest,
    transactional_id=Field(STRING, null_since=0),
    transaction_timeout_ms=Field(INT32),
    producer_id=Field(INT64, since=3),
    producer_epoch=Field(INT16, since=3),
    enable2_pc=Field(BOOL, since=6),
    keep_prepared_txn=Field(BOOL, since=6),
)
INIT_PRODUCER_ID_REQUEST: Final[Message[InitProducerIdRequest]] = Message(
    _INIT_PRODUCER_ID_REQUEST, api_key=22, versions=(0, 6), first_flexible=2
)
_INIT_PRODUCER_ID_RESPONSE: Final = Struct(
    InitProducerIdResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    ongoing_txn_producer_id=Field(INT64, since=6),
    ongoing_txn_producer_epoch=Field(INT16, since=6),
)
INIT_PRODUCER_ID_RESPONSE: Final[Message[InitProducerIdResponse]] = Message(
    _INIT_PRODUCER_ID_RESPONSE, api_key=22, versions=(0, 6), first_flexible=2
)
