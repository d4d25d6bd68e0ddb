"""InitProducerId. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, Int64, String, messages


class InitProducerIdRequest(NamedTuple):
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(since=3)] = -1
    producer_epoch: Annotated[Int16, In(since=3)] = -1
    enable2_pc: Annotated[Bool, In(since=6)] = False
    keep_prepared_txn: Annotated[Bool, In(since=6)] = False


class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, In(since=6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, In(since=6)] = -1


INIT_PRODUCER_ID_REQUEST, INIT_PRODUCER_ID_RESPONSE = messages(
    InitProducerIdRequest, InitProducerIdResponse, api_key=22, versions=(0, 6), first_flexible=2
)
