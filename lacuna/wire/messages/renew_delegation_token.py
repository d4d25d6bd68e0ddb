"""RenewDelegationToken. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT32, INT64
from lacuna.wire.layout import Field, Message, Struct


class RenewDelegationTokenRequest(NamedTuple):
    hmac: bytes = b""
    renew_period_ms: int = 0


class RenewDelegationTokenResponse(NamedTuple):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


_RENEW_DELEGATION_TOKEN_REQUEST: Final = Struct(
    RenewDelegationTokenRequest,
    hmac=Field(BYTES),
    renew_period_ms=Field(INT64),
)
RENEW_DELEGATION_TOKEN_REQUEST: Final[Message[RenewDelegationTokenRequest]] = Message(
    _RENEW_DELEGATION_TOKEN_REQUEST, api_key=39, versions=(0, 2), first_flexible=2
)
_RENEW_DELEGATION_TOKEN_RESPONSE: Final = Struct(
    RenewDelegationTokenResponse,
    error_code=Field(INT16),
    expiry_timestamp_ms=Field(INT64),
    throttle_time_ms=Field(INT32),
)
RENEW_DELEGATION_TOKEN_RESPONSE: Final[Message[RenewDelegationTokenResponse]] = Message(
    _RENEW_DELEGATION_TOKEN_RESPONSE, api_key=39, versions=(0, 2), first_flexible=2
)
