"""DescribeUserScramCredentials. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class UserName(NamedTuple):
    name: str = ""


class DescribeUserScramCredentialsRequest(NamedTuple):
    users: Sequence[UserName] | None = ()


class CredentialInfo(NamedTuple):
    mechanism: int = 0
    iterations: int = 0


class DescribeUserScramCredentialsResult(NamedTuple):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


class DescribeUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()


_USER_NAME: Final = Struct(
    UserName,
    name=Field(STRING),
)
_DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST: Final = Struct(
    DescribeUserScramCredentialsRequest,
    users=Field(_USER_NAME, is_array=True, null_since=0),
)
DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST: Final[Message[DescribeUserScramCredentialsRequest]] = (
    Message(_DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST, api_key=50, versions=(0, 0), first_flexible=0)
)
_CREDENTIAL_INFO: Final = Struct(
    CredentialInfo,
    mechanism=Field(INT8),
    iterations=Field(INT32),
)
_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT: Final = Struct(
    DescribeUserScramCredentialsResult,
    user=Field(STRING),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    credential_infos=Field(_CREDENTIAL_INFO, is_array=True),
)
_DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE: Final = Struct(
    DescribeUserScramCredentialsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    results=Field(_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT, is_array=True),
)
DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE: Final[Message[DescribeUserScramCredentialsResponse]] = (
    Message(
        _DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE, api_key=50, versions=(0, 0), first_flexible=0
    )
)
