"""CreateAcls v0-v3 (KIP-140, KIP-290): adds ACLs, each with its own error. Adding an existing ACL succeeds.

Without an authorizer, each returns SECURITY_DISABLED, as in Kafka.
"""

from lacuna.agent.admin.security import (
    DISABLED,
    MOST_AT_ONCE,
    NO_AUTHORIZER,
    change_acls,
    entry_of,
    problem_of,
)
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.create_acls import (
    CREATE_ACLS_REQUEST,
    CREATE_ACLS_RESPONSE,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Send one command for all valid ACLs."""
    if call.context.access.authorizer is None:
        disabled = AclCreationResult(DISABLED, NO_AUTHORIZER)
        return CreateAclsResponse(results=[disabled] * len(request.creations))
    if len(request.creations) > MOST_AT_ONCE:
        too_many = f"Cannot create more than {MOST_AT_ONCE} acls in a single operation."
        result = AclCreationResult(ErrorCode.INVALID_REQUEST, too_many)
        return CreateAclsResponse(results=[result] * len(request.creations))
    acls = [entry_of(each) for each in request.creations]
    problems = [problem_of(each) for each in acls]
    valid = [each for each, problem in zip(acls, problems, strict=True) if not problem]
    code, message = await change_acls(call.context, added=valid) if valid else (0, None)
    return CreateAclsResponse(
        results=[
            AclCreationResult(ErrorCode.INVALID_REQUEST, problem)
            if problem
            else AclCreationResult(code, message)
            for problem in problems
        ]
    )


def refuse(_call: Call, request: CreateAclsRequest, error_code: int) -> CreateAclsResponse:
    """Answer every ACL with the error."""
    result = AclCreationResult(error_code, None)
    return CreateAclsResponse(results=[result] * len(request.creations))


API = Api(
    request=CREATE_ACLS_REQUEST,
    response=CREATE_ACLS_RESPONSE,
    max_version=3,
    advertised=(1, 3),
    handle=handle,
    refuse=refuse,
    guard=on_cluster(Operation.ALTER),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="returns SECURITY_DISABLED without an authorizer",
)
