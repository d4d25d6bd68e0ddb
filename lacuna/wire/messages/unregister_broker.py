"""UnregisterBroker. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class UnregisterBrokerRequest(NamedTuple):
    broker_id: int = 0


class UnregisterBrokerResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


_UNREGISTER_BROKER_REQUEST: Final = Struct(
    UnregisterBrokerRequest,
    broker_id=Field(INT32),
)
UNREGISTER_BROKER_REQUEST: Final[Message[UnregisterBrokerRequest]] = Message(
    _UNREGISTER_BROKER_REQUEST, api_key=64, versions=(0, 0), first_flexible=0
)
_UNREGISTER_BROKER_RESPONSE: Final = Struct(
    UnregisterBrokerResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
UNREGISTER_BROKER_RESPONSE: Final[Message[UnregisterBrokerResponse]] = Message(
    _UNREGISTER_BROKER_RESPONSE, api_key=64, versions=(0, 0), first_flexible=0
)
