"""ExpireDelegationToken. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT32, INT64
from lacuna.wire.layout import Field, Message, Struct


class ExpireDelegationTokenRequest(NamedTuple):
    hmac: bytes = b""
    expiry_time_period_ms: int = 0


class ExpireDelegationTokenResponse(NamedTuple):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


_EXPIRE_DELEGATION_TOKEN_REQUEST: Final = Struct(
    ExpireDelegationTokenRequest,
    hmac=Field(BYTES),
    expiry_time_period_ms=Field(INT64),
)
EXPIRE_DELEGATION_TOKEN_REQUEST: Final[Message[ExpireDelegationTokenRequest]] = Message(
    _EXPIRE_DELEGATION_TOKEN_REQUEST, api_key=40, versions=(0, 2), first_flexible=2
)
_EXPIRE_DELEGATION_TOKEN_RESPONSE: Final = Struct(
    ExpireDelegationTokenResponse,
    error_code=Field(INT16),
    expiry_timestamp_ms=Field(INT64),
    throttle_time_ms=Field(INT32),
)
EXPIRE_DELEGATION_TOKEN_RESPONSE: Final[Message[ExpireDelegationTokenResponse]] = Message(
    _EXPIRE_DELEGATION_TOKEN_RESPONSE, api_key=40, versions=(0, 2), first_flexible=2
)
