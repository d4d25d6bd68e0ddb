"""ExpireDelegationToken. Written by lacuna.wire.generator, not by hand."""

from typing import NamedTuple

from lacuna.wire.layout import Bytes, Int16, Int32, Int64, messages


class ExpireDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


EXPIRE_DELEGATION_TOKEN_REQUEST, EXPIRE_DELEGATION_TOKEN_RESPONSE = messages(
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    api_key=40,
    versions=(0, 2),
    first_flexible=2,
)
