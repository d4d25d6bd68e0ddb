"""DescribeDelegationToken. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int32, Int64, String, messages


class DescribeDelegationTokenOwner(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class DescribeDelegationTokenRequest(NamedTuple):
    owners: Sequence[DescribeDelegationTokenOwner] | None = ()


class DescribedDelegationTokenRenewer(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class DescribedDelegationToken(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In(since=3)] = ""
    token_requester_principal_name: Annotated[String, In(since=3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Sequence[DescribedDelegationTokenRenewer] = ()


class DescribeDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    tokens: Sequence[DescribedDelegationToken] = ()
    throttle_time_ms: Int32 = 0


DESCRIBE_DELEGATION_TOKEN_REQUEST, DESCRIBE_DELEGATION_TOKEN_RESPONSE = messages(
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    api_key=41,
    versions=(0, 3),
    first_flexible=2,
)
