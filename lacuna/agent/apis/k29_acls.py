"""DescribeAcls v0-v3 (KIP-140, KIP-290): returns the ACLs that a filter matches, by resource.

Without an authorizer, the request returns SECURITY_DISABLED, as in Kafka. v0 does not support patterns and describes
only literal names.

CreateAcls v0-v3 (KIP-140, KIP-290): adds ACLs, each with its own error. Adding an existing ACL succeeds.

Without an authorizer, each ACL returns SECURITY_DISABLED, as in Kafka.

DeleteAcls v0-v3 (KIP-140, KIP-290): removes all ACLs that its filters match, and lists the removed ACLs by filter.

Without an authorizer, each filter returns SECURITY_DISABLED, as in Kafka.
"""

from lacuna.agent.admin.security import (
    DISABLED,
    MOST_AT_ONCE,
    NO_AUTHORIZER,
    change_acls,
    entry_of,
    filter_of,
    filter_problem,
    problem_of,
)
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import AclEntry
from lacuna.wire.messages import security as wire


async def describe(call: Call, request: wire.DescribeAclsRequest) -> wire.DescribeAclsResponse:
    if call.context.access.authorizer is None:
        return wire.DescribeAclsResponse(
            error_code=DISABLED, error_message="No Authorizer is configured on the broker"
        )
    wanted = filter_of(request)
    if problem := filter_problem(wanted):
        return wire.DescribeAclsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=problem
        )
    found: dict[tuple[int, str, int], list[wire.AclDescription]] = {}
    for acl in sorted((await current_view(call.context)).security.acls):
        if wanted.matches(acl):
            resource = acl.resource_type, acl.resource_name, acl.pattern_type
            described = wire.AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
            found.setdefault(resource, []).append(described)
    return wire.DescribeAclsResponse(
        error_message=None,
        resources=[wire.DescribeAclsResource(*resource, acls) for resource, acls in found.items()],
    )


async def create(call: Call, request: wire.CreateAclsRequest) -> wire.CreateAclsResponse:
    if call.context.access.authorizer is None:
        disabled = wire.AclCreationResult(DISABLED, NO_AUTHORIZER)
        return wire.CreateAclsResponse(results=[disabled] * len(request.creations))
    if len(request.creations) > MOST_AT_ONCE:
        too_many = f"Cannot create more than {MOST_AT_ONCE} acls in a single operation."
        result = wire.AclCreationResult(ErrorCode.INVALID_REQUEST, too_many)
        return wire.CreateAclsResponse(results=[result] * len(request.creations))
    acls = [entry_of(each) for each in request.creations]
    problems = [problem_of(each) for each in acls]
    valid = [each for each, problem in zip(acls, problems, strict=True) if not problem]
    code, message = await change_acls(call.context, added=valid) if valid else (0, None)
    return wire.CreateAclsResponse(
        results=[
            wire.AclCreationResult(ErrorCode.INVALID_REQUEST, problem)
            if problem
            else wire.AclCreationResult(code, message)
            for problem in problems
        ]
    )


async def delete(call: Call, request: wire.DeleteAclsRequest) -> wire.DeleteAclsResponse:
    if call.context.access.authorizer is None:
        disabled = wire.DeleteAclsFilterResult(DISABLED, NO_AUTHORIZER)
        return wire.DeleteAclsResponse(filter_results=[disabled] * len(request.filters))
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
    return wire.DeleteAclsResponse(
        filter_results=[
            _result(each, acls, code, message)
            for each, acls in zip(request.filters, matched, strict=True)
        ]
    )


def _matched(acls: list[AclEntry], asked: wire.DeleteAclsFilter) -> list[AclEntry] | None:
    wanted = filter_of(asked)
    return None if filter_problem(wanted) else [each for each in acls if wanted.matches(each)]


def _result(
    asked: wire.DeleteAclsFilter, acls: list[AclEntry] | None, code: int, message: str | None
) -> wire.DeleteAclsFilterResult:
    if acls is None:
        return wire.DeleteAclsFilterResult(
            ErrorCode.INVALID_REQUEST, filter_problem(filter_of(asked))
        )
    if code:
        return wire.DeleteAclsFilterResult(code, message)
    removed = [wire.DeleteAclsMatchingAcl(0, None, *each) for each in acls]
    return wire.DeleteAclsFilterResult(0, None, removed)


APIS = (
    Api(
        request=wire.DESCRIBE_ACLS_REQUEST,
        response=wire.DESCRIBE_ACLS_RESPONSE,
        advertised=(1, 3),
        handle=describe,
        guard=on_cluster(Operation.DESCRIBE),
        notes="returns SECURITY_DISABLED without an authorizer",
    ),
    Api(
        request=wire.CREATE_ACLS_REQUEST,
        response=wire.CREATE_ACLS_RESPONSE,
        advertised=(1, 3),
        handle=create,
        refusal=lambda _call, request, code: wire.CreateAclsResponse(
            results=[wire.AclCreationResult(code, None)] * len(request.creations)
        ),
        guard=on_cluster(Operation.ALTER),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="returns SECURITY_DISABLED without an authorizer",
    ),
    Api(
        request=wire.DELETE_ACLS_REQUEST,
        response=wire.DELETE_ACLS_RESPONSE,
        advertised=(1, 3),
        handle=delete,
        refusal=lambda _call, request, code: wire.DeleteAclsResponse(
            filter_results=[wire.DeleteAclsFilterResult(code, None)] * len(request.filters)
        ),
        guard=on_cluster(Operation.ALTER),
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="returns SECURITY_DISABLED without an authorizer",
    ),
)
