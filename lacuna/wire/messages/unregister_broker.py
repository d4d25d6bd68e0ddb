"""UnregisterBroker. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.layout import Int16, Int32, Message, String


class UnregisterBrokerRequest(NamedTuple):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


UNREGISTER_BROKER_REQUEST: Final = Message(
    UnregisterBrokerRequest, api_key=64, versions=(0, 0), first_flexible=0
)

UNREGISTER_BROKER_RESPONSE: Final = Message(
    UnregisterBrokerResponse, api_key=64, versions=(0, 0), first_flexible=0
)
