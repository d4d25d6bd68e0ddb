"""DescribeUserScramCredentials v0 (KIP-554): returns the mechanisms and iterations of users.

A named user without credentials returns RESOURCE_NOT_FOUND, and a user named twice DUPLICATE_RESOURCE. Users of
sasl.users.file are not included, since this API's clients cannot alter them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer for each named user, or for all users if the request is null or empty."""
    kept: dict[str, list[CredentialInfo]] = {}
    credentials = (await current_view(call.context)).security.credentials
    for (user, mechanism), credential in sorted(credentials.items()):
        kept.setdefault(user, []).append(CredentialInfo(mechanism, credential.iterations))
    times = Counter(user.name for user in request.users or ()) or dict.fromkeys(kept, 1)
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, count, kept) for name, count in times.items()]
    )


def _result(
    name: str, count: int, kept: Mapping[str, Sequence[CredentialInfo]]
) -> DescribeUserScramCredentialsResult:
    if count > 1:
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, message)
    if name not in kept:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return DescribeUserScramCredentialsResult(
        name, ErrorCode.NONE, None, credential_infos=kept[name]
    )


API = Api(
    request=DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
    response=DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=error_in(DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE),
    guard=on_cluster(Operation.DESCRIBE),
)
