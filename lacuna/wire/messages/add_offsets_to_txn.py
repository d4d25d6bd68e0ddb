"""AddOffsetsToTxn. Written by lacuna.wire.generator, not by hand."""

from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, Int64, String, messages


class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


ADD_OFFSETS_TO_TXN_REQUEST, ADD_OFFSETS_TO_TXN_RESPONSE = messages(
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, api_key=25, versions=(0, 4), first_flexible=3
)
