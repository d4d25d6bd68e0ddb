"""RenewDelegationToken. Written by lacuna.wire.generator, not by hand."""

from typing import NamedTuple

from lacuna.wire.layout import Bytes, Int16, Int32, Int64, messages


class RenewDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


RENEW_DELEGATION_TOKEN_REQUEST, RENEW_DELEGATION_TOKEN_RESPONSE = messages(
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    api_key=39,
    versions=(0, 2),
    first_flexible=2,
)
