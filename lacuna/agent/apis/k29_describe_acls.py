"""DescribeAcls v0-v3: the ACLs that a filter matches, by resource (KIP-140, KIP-290).

Without an authorizer, it returns SECURITY_DISABLED, as in Kafka. v0 has no patterns and describes only literal names.
"""

from lacuna.agent.admin.security import DISABLED, filter_of, filter_problem
from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.describe_acls import (
    DESCRIBE_ACLS_REQUEST,
    DESCRIBE_ACLS_RESPONSE,
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


async def handle(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Search all ACLs of the cluster."""
    if call.context.access.authorizer is None:
        return DescribeAclsResponse(
            error_code=DISABLED, error_message="No Authorizer is configured on the broker"
        )
    wanted = filter_of(request)
    if problem := filter_problem(wanted):
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in sorted((await current_view(call.context)).security.acls):
        if wanted.matches(acl):
            resource = acl.resource_type, acl.resource_name, acl.pattern_type
            described = AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
            found.setdefault(resource, []).append(described)
    return DescribeAclsResponse(
        error_message=None,
        resources=[DescribeAclsResource(*resource, acls) for resource, acls in found.items()],
    )


API = Api(
    request=DESCRIBE_ACLS_REQUEST,
    response=DESCRIBE_ACLS_RESPONSE,
    max_version=3,
    advertised=(1, 3),
    handle=handle,
    refuse=error_in(DESCRIBE_ACLS_RESPONSE),
    guard=on_cluster(Operation.DESCRIBE),
    notes="returns SECURITY_DISABLED without an authorizer",
)
