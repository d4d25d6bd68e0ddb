"""EndTxn. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, Int64, String, messages


class EndTxnRequest(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, In(since=5)] = -1
    producer_epoch: Annotated[Int16, In(since=5)] = -1


END_TXN_REQUEST, END_TXN_RESPONSE = messages(
    EndTxnRequest, EndTxnResponse, api_key=26, versions=(0, 5), first_flexible=3
)
