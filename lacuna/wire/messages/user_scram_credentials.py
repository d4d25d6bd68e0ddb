"""User scram credentials. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Bytes, Int8, Int16, Int32, String, messages


class ScramCredentialDeletion(NamedTuple):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(NamedTuple):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(NamedTuple):
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()


class AlterUserScramCredentialsResult(NamedTuple):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()


class UserName(NamedTuple):
    name: String = ""


class DescribeUserScramCredentialsRequest(NamedTuple):
    users: Sequence[UserName] | None = ()


class CredentialInfo(NamedTuple):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(NamedTuple):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


class DescribeUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()


ALTER_USER_SCRAM_CREDENTIALS_REQUEST, ALTER_USER_SCRAM_CREDENTIALS_RESPONSE = messages(
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    api_key=51,
    versions=(0, 0),
    first_flexible=0,
)

DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST, DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE = messages(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    api_key=50,
    versions=(0, 0),
    first_flexible=0,
)
