"""DescribeUserScramCredentials v0 (KIP-554): returns the mechanisms and iterations of users.

A named user without credentials returns RESOURCE_NOT_FOUND, and a user named twice returns DUPLICATE_RESOURCE. Users
from sasl.users.file are not included, since clients of this API cannot alter them.

AlterUserScramCredentials v0 (KIP-554): sets and deletes users' SCRAM and PLAIN credentials.

The agent never receives passwords, because clients send them salted. All valid changes are applied in one command. A
client that authenticated with a delegation token may not make changes. The password of a user in sasl.users.file cannot
be set, because the one in the file takes precedence.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.security.sasl.users import (
    LEAST_ITERATIONS,
    MECHANISM_NAMES,
    MOST_ITERATIONS,
    verifier_of,
)
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, ScramCredential, SecurityChanges
from lacuna.wire.messages import security as wire


async def describe(
    call: Call, request: wire.DescribeUserScramCredentialsRequest
) -> wire.DescribeUserScramCredentialsResponse:
    kept: dict[str, list[wire.CredentialInfo]] = {}
    credentials = (await current_view(call.context)).security.credentials
    for (user, mechanism), credential in sorted(credentials.items()):
        kept.setdefault(user, []).append(wire.CredentialInfo(mechanism, credential.iterations))
    times = Counter(user.name for user in request.users or ()) or dict.fromkeys(kept, 1)
    return wire.DescribeUserScramCredentialsResponse(
        results=[_result(name, count, kept) for name, count in times.items()]
    )


def _result(
    name: str, count: int, kept: Mapping[str, Sequence[wire.CredentialInfo]]
) -> wire.DescribeUserScramCredentialsResult:
    if count > 1:
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        return wire.DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, message)
    if name not in kept:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return wire.DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return wire.DescribeUserScramCredentialsResult(
        name, ErrorCode.NONE, None, credential_infos=kept[name]
    )


_Error = tuple[int, str | None]
_MOST_OF_NAME = 1024
_OF_FILE = (
    "The user is in this agent's sasl.users.file, whose password takes precedence over any "
    "password set here. Change the password in the file, or remove the user from the "
    "file, and restart the agents that use the file"
)


async def alter(
    call: Call, request: wire.AlterUserScramCredentialsRequest
) -> wire.AlterUserScramCredentialsResponse:
    if call.peer.session.is_token:
        return _refuse_alter(call, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    kept = (await current_view(call.context)).security.credentials
    changes = SecurityChanges()
    results: dict[str, _Error] = {each.name: (ErrorCode.NONE, None) for each in _all(request)}
    named = Counter((each.name, each.mechanism) for each in _all(request))
    access = call.context.access
    for each in _all(request):
        code, message = _invalid(each, (each.name, each.mechanism) in kept)
        if (
            not code
            and isinstance(each, wire.ScramCredentialUpsertion)
            and access.is_of_file(each.name)
        ):
            code, message = ErrorCode.UNACCEPTABLE_CREDENTIAL, _OF_FILE
        if named[each.name, each.mechanism] > 1:
            code, message = (
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        if code:
            results[each.name] = code, message
    for each in _all(request):
        if results[each.name][0] == ErrorCode.NONE:
            changes.credentials.append(_credential(each))
    if changes.credentials:
        command = Command(alter_security=AlterSecurity(changes=changes))
        reply = (await call.context.control.call(command)).security_altered
        for credential in changes.credentials:
            results[credential.user] = reply.error_code, reply.error_message or None
    return _answer(results)


def _refuse_alter(
    _call: Call, request: wire.AlterUserScramCredentialsRequest, error_code: int
) -> wire.AlterUserScramCredentialsResponse:
    return _answer({each.name: (error_code, None) for each in _all(request)})


def _all(
    request: wire.AlterUserScramCredentialsRequest,
) -> Iterator[wire.ScramCredentialDeletion | wire.ScramCredentialUpsertion]:
    yield from request.deletions
    yield from request.upsertions


def _invalid(
    change: wire.ScramCredentialDeletion | wire.ScramCredentialUpsertion, is_kept: bool
) -> tuple[int, str | None]:
    if not change.name or len(change.name) > _MOST_OF_NAME:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in MECHANISM_NAMES:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, wire.ScramCredentialDeletion):
        if is_kept:
            return ErrorCode.NONE, None
        return (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        )
    if not LEAST_ITERATIONS <= change.iterations <= MOST_ITERATIONS:
        return (
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Too few iterations" if change.iterations < LEAST_ITERATIONS else "Too many iterations",
        )
    if not change.salt or not change.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Both a salt and a salted password are required"
    return ErrorCode.NONE, None


def _credential(
    change: wire.ScramCredentialDeletion | wire.ScramCredentialUpsertion,
) -> ScramCredential:
    credential = ScramCredential(user=change.name, mechanism=change.mechanism)
    if isinstance(change, wire.ScramCredentialUpsertion):
        kept = verifier_of(
            bytes(change.salted_password), change.mechanism, bytes(change.salt), change.iterations
        )
        credential.iterations, credential.salt, credential.stored_key, credential.server_key = kept
    return credential


def _answer(results: dict[str, _Error]) -> wire.AlterUserScramCredentialsResponse:
    return wire.AlterUserScramCredentialsResponse(
        results=[
            wire.AlterUserScramCredentialsResult(name, code, message)
            for name, (code, message) in results.items()
        ]
    )


APIS = (
    Api(
        request=wire.DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST,
        response=wire.DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE,
        handle=describe,
        guard=on_cluster(Operation.DESCRIBE),
    ),
    Api(
        request=wire.ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
        response=wire.ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
        handle=alter,
        refusal=_refuse_alter,
        guard=on_cluster(Operation.ALTER),
    ),
)
