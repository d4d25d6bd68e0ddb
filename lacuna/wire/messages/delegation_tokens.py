"""Delegation tokens. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int32, Int64, String, messages


class CreatableRenewers(NamedTuple):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenRequest(NamedTuple):
    owner_principal_type: Annotated[String | None, In(since=3)] = ""
    owner_principal_name: Annotated[String | None, In(since=3)] = ""
    renewers: Sequence[CreatableRenewers] = ()
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In(since=3)] = ""
    token_requester_principal_name: Annotated[String, In(since=3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


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


class ExpireDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(NamedTuple):
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(NamedTuple):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


CREATE_DELEGATION_TOKEN_REQUEST, CREATE_DELEGATION_TOKEN_RESPONSE = messages(
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    api_key=38,
    versions=(0, 3),
    first_flexible=2,
)

DESCRIBE_DELEGATION_TOKEN_REQUEST, DESCRIBE_DELEGATION_TOKEN_RESPONSE = messages(
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    api_key=41,
    versions=(0, 3),
    first_flexible=2,
)

EXPIRE_DELEGATION_TOKEN_REQUEST, EXPIRE_DELEGATION_TOKEN_RESPONSE = messages(
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    api_key=40,
    versions=(0, 2),
    first_flexible=2,
)

RENEW_DELEGATION_TOKEN_REQUEST, RENEW_DELEGATION_TOKEN_RESPONSE = messages(
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    api_key=39,
    versions=(0, 2),
    first_flexible=2,
)
