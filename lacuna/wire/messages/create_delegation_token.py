"""CreateDelegationToken. Written by lacuna.wire.generator, not by hand."""

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


CREATE_DELEGATION_TOKEN_REQUEST, CREATE_DELEGATION_TOKEN_RESPONSE = messages(
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    api_key=38,
    versions=(0, 3),
    first_flexible=2,
)
