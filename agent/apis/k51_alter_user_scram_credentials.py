"""AlterUserScramCredentials v0 (KIP-554): connections are not authenticated, so credentials cannot be set.

Deleting one is RESOURCE_NOT_FOUND, setting one is UNSUPPORTED_SASL_MECHANISM with a message.
"""

from collections.abc import Mapping

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
    ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

_Error = tuple[int, str | None]

_NOT_FOUND = "Attempt to delete a user credential that does not exist"
_NOT_CHECKED = "Connections are not authenticated here, so credentials cannot be set."


async def handle(
    _call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Answer each user with an error."""
    missing: _Error = ErrorCode.RESOURCE_NOT_FOUND, _NOT_FOUND
    results = {each.name: missing for each in request.deletions}
    for each in request.upsertions:
        results[each.name] = ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NOT_CHECKED
    return _answer(results)


def refuse(
    _call: Call, request: AlterUserScramCredentialsRequest, error_code: int
) -> AlterUserScramCredentialsResponse:
    """Answer every user with the error."""
    names = [each.name for each in request.deletions]
    names += [each.name for each in request.upsertions]
    return _answer(dict.fromkeys(names, (error_code, None)))


def _answer(results: Mapping[str, _Error]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, code, message)
            for name, (code, message) in results.items()
        ]
    )


API = Api(
    request=ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
    response=ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=refuse,
    notes="connections are not authenticated: UNSUPPORTED_SASL_MECHANISM",
)
