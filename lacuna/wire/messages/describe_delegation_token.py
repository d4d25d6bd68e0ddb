"""DescribeDelegationToken. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeDelegationTokenOwner(NamedTuple):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(NamedTuple):
    owners: Sequence[DescribeDelegationTokenOwner] | None = ()


class DescribedDelegationTokenRenewer(NamedTuple):
    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(NamedTuple):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: Sequence[DescribedDelegationTokenRenewer] = ()


class DescribeDelegationTokenResponse(NamedTuple):
    error_code: int = 0
    tokens: Sequence[DescribedDelegationToken] = ()
    throttle_time_ms: int = 0


_DESCRIBE_DELEGATION_TOKEN_OWNER: Final = Struct(
    DescribeDelegationTokenOwner,
    principal_type=Field(STRING),
    principal_name=Field(STRING),
)
_DESCRIBE_DELEGATION_TOKEN_REQUEST: Final = Struct(
    DescribeDelegationTokenRequest,
    owners=Field(_DESCRIBE_DELEGATION_TOKEN_OWNER, is_array=True, null_since=0),
)
DESCRIBE_DELEGATION_TOKEN_REQUEST: Final[Message[DescribeDelegationTokenRequest]] = Message(
    _DESCRIBE_DELEGATION_TOKEN_REQUEST, api_key=41, versions=(0, 3), first_flexible=2
)
_DESCRIBED_DELEGATION_TOKEN_RENEWER: Final = Struct(
    DescribedDelegationTokenRenewer,
    principal_type=Field(STRING),
    principal_name=Field(STRING),
)
_DESCRIBED_DELEGATION_TOKEN: Final = Struct(
    DescribedDelegationToken,
    principal_type=Field(STRING),
    principal_name=Field(STRING),
    token_requester_principal_type=Field(STRING, since=3),
    token_requester_principal_name=Field(STRING, since=3),
    issue_timestamp=Field(INT64),
    expiry_timestamp=Field(INT64),
    max_timestamp=Field(INT64),
    token_id=Field(STRING),
    hmac=Field(BYTES),
    renewers=Field(_DESCRIBED_DELEGATION_TOKEN_RENEWER, is_array=True),
)
_DESCRIBE_DELEGATION_TOKEN_RESPONSE: Final = Struct(
    DescribeDelegationTokenResponse,
    error_code=Field(INT16),
    tokens=Field(_DESCRIBED_DELEGATION_TOKEN, is_array=True),
    throttle_time_ms=Field(INT32),
)
DESCRIBE_DELEGATION_TOKEN_RESPONSE: Final[Message[DescribeDelegationTokenResponse]] = Message(
    _DESCRIBE_DELEGATION_TOKEN_RESPONSE, api_key=41, versions=(0, 3), first_flexible=2
)
