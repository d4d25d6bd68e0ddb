"""DescribeUserScramCredentials v0 (KIP-554): there are no credentials.

A user that the request names is RESOURCE_NOT_FOUND, one that it names twice DUPLICATE_RESOURCE.
"""

from collections import Counter

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    _call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer each named user with an error; a request for all users (null or empty) gets no results."""
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, count) for name, count in times.items()]
    )


def refuse(
    _call: Call, _request: DescribeUserScramCredentialsRequest, error_code: int
) -> DescribeUserScramCredentialsResponse:
    """Answer with the error and no users."""
    return DescribeUserScramCredentialsResponse(error_code=error_code, error_message=None)


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    return DescribeUserScramCredentialsResult(name, code, message)


API = Api(
    request=DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    response=DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=refuse,
    notes="there are no credentials",
)
