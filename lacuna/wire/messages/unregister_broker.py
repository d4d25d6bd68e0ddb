"""UnregisterBroker. Written by lacuna.wire.generator, not by hand."""

from typing import NamedTuple

from lacuna.wire.layout import Int16, Int32, String, messages


class UnregisterBrokerRequest(NamedTuple):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


UNREGISTER_BROKER_REQUEST, UNREGISTER_BROKER_RESPONSE = messages(
    UnregisterBrokerRequest, UnregisterBrokerResponse, api_key=64, versions=(0, 0), first_flexible=0
)
