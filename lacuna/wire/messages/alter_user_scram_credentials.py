"""AlterUserScramCredentials. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class ScramCredentialDeletion(NamedTuple):
    name: str = ""
    mechanism: int = 0


class ScramCredentialUpsertion(NamedTuple):
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(NamedTuple):
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()


class AlterUserScramCredentialsResult(NamedTuple):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()


_SCRAM_CREDENTIAL_DELETION: Final = Struct(
    ScramCredentialDeletion,
    name=Field(STRING),
    mechanism=Field(INT8),
)
_SCRAM_CREDENTIAL_UPSERTION: Final = Struct(
    ScramCredentialUpsertion,
    name=Field(STRING),
    mechanism=Field(INT8),
    iterations=Field(INT32),
    salt=Field(BYTES),
    salted_password=Field(BYTES),
)
_ALTER_USER_SCRAM_CREDENTIALS_REQUEST: Final = Struct(
    AlterUserScramCredentialsRequest,
    deletions=Field(_SCRAM_CREDENTIAL_DELETION, is_array=True),
    upsertions=Field(_SCRAM_CREDENTIAL_UPSERTION, is_array=True),
)
ALTER_USER_SCRAM_CREDENTIALS_REQUEST: Final[Message[AlterUserScramCredentialsRequest]] = Message(
    _ALTER_USER_SCRAM_CREDENTIALS_REQUEST, api_key=51, versions=(0, 0), first_flexible=0
)
_ALTER_USER_SCRAM_CREDENTIALS_RESULT: Final = Struct(
    AlterUserScramCredentialsResult,
    user=Field(STRING),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_ALTER_USER_SCRAM_CREDENTIALS_RESPONSE: Final = Struct(
    AlterUserScramCredentialsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_ALTER_USER_SCRAM_CREDENTIALS_RESULT, is_array=True),
)
ALTER_USER_SCRAM_CREDENTIALS_RESPONSE: Final[Message[AlterUserScramCredentialsResponse]] = Message(
    _ALTER_USER_SCRAM_CREDENTIALS_RESPONSE, api_key=51, versions=(0, 0), first_flexible=0
)
