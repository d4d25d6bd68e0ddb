"""DeleteAcls v0-v3 (KIP-140, KIP-290): removes all ACLs that its filters match, and lists them by filter.

Without an authorizer, each filter returns SECURITY_DISABLED, as in Kafka.
"""

from lacuna.agent.admin.security import (
    DISABLED,
    MOST_AT_ONCE,
    NO_AUTHORIZER,
    change_acls,
    filter_of,
    filter_problem,
)
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import AclEntry
from lacuna.wire.messages.delete_acls import (
    DELETE_ACLS_REQUEST,
    DELETE_ACLS_RESPONSE,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Send one command for all matching ACLs."""
    if call.context.access.authorizer is None:
        disabled = DeleteAclsFilterResult(DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[disabled] * len(request.filters))
    kept = sorted((await current_view(call.context)).security.acls)
    matched = [_matched(kept, each) for each in request.filters]
    found = {acl: None for acls in matched for acl in acls or ()}
    code: int
    message: str | None
    code, message = 0, None
    if len(found) > MOST_AT_ONCE:
        code = ErrorCode.INVALID_REQUEST
        message = f"Cannot remove more than {MOST_AT_ONCE} acls in a single delete operation."
    elif found:
        code, message = await change_acls(call.context, removed=found)
    return DeleteAclsResponse(
        filter_results=[
            _result(each, acls, code, message)
            for each, acls in zip(request.filters, matched, strict=True)
        ]
    )


def refuse(_call: Call, request: DeleteAclsRequest, error_code: int) -> DeleteAclsResponse:
    """Answer every filter with the error."""
    result = DeleteAclsFilterResult(error_code, None)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _matched(acls: list[AclEntry], asked: DeleteAclsFilter) -> list[AclEntry] | None:
    """Return the ACLs that a filter matches, or None if it is invalid."""
    wanted = filter_of(asked)
    return None if filter_problem(wanted) else [each for each in acls if wanted.matches(each)]


def _result(
    asked: DeleteAclsFilter, acls: list[AclEntry] | None, code: int, message: str | None
) -> DeleteAclsFilterResult:
    if acls is None:
        return DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, filter_problem(filter_of(asked)))
    if code:
        return DeleteAclsFilterResult(code, message)
    removed = [DeleteAclsMatchingAcl(0, None, *each) for each in acls]
    return DeleteAclsFilterResult(0, None, removed)


API = Api(
    request=DELETE_ACLS_REQUEST,
    response=DELETE_ACLS_RESPONSE,
    max_version=3,
    advertised=(1, 3),
    handle=handle,
    refuse=refuse,
    guard=on_cluster(Operation.ALTER),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="returns SECURITY_DISABLED without an authorizer",
)
