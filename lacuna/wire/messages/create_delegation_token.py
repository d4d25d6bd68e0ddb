"""CreateDelegationToken. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class CreatableRenewers(NamedTuple):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(NamedTuple):
    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: Sequence[CreatableRenewers] = ()
    max_lifetime_ms: int = 0


class CreateDelegationTokenResponse(NamedTuple):
    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


_CREATABLE_RENEWERS: Final = Struct(
    CreatableRenewers,
    principal_type=Field(STRING),
    principal_name=Field(STRING),
)
_CREATE_DELEGATION_TOKEN_REQUEST: Final = Struct(
    CreateDelegationTokenRequest,
    owner_principal_type=Field(STRING, since=3, null_since=3),
    owner_principal_name=Field(STRING, since=3, null_since=3),
    renewers=Field(_CREATABLE_RENEWERS, is_array=True),
    max_lifetime_ms=Field(INT64),
)
CREATE_DELEGATION_TOKEN_REQUEST: Final[Message[CreateDelegationTokenRequest]] = Message(
    _CREATE_DELEGATION_TOKEN_REQUEST, api_key=38, versions=(0, 3), first_flexible=2
)
_CREATE_DELEGATION_TOKEN_RESPONSE: Final = Struct(
    CreateDelegationTokenResponse,
    error_code=Field(INT16),
    principal_type=Field(STRING),
    principal_name=Field(STRING),
    token_requester_principal_type=Field(STRING, since=3),
    token_requester_principal_name=Field(STRING, since=3),
    issue_timestamp_ms=Field(INT64),
    expiry_timestamp_ms=Field(INT64),
    max_timestamp_ms=Field(INT64),
    token_id=Field(STRING),
    hmac=Field(BYTES),
    throttle_time_ms=Field(INT32),
)
CREATE_DELEGATION_TOKEN_RESPONSE: Final[Message[CreateDelegationTokenResponse]] = Message(
    _CREATE_DELEGATION_TOKEN_RESPONSE, api_key=38, versions=(0, 3), first_flexible=2
)
