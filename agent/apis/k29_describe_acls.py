"""DescribeAcls v0-v3: SECURITY_DISABLED, as Kafka answers without an authorizer."""

from lacuna.agent.admin.security import DISABLED
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.describe_acls import (
    DESCRIBE_ACLS_REQUEST,
    DESCRIBE_ACLS_RESPONSE,
    DescribeAclsRequest,
    DescribeAclsResponse,
)


async def handle(_call: Call, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Refuse, since there are no ACLs."""
    return DescribeAclsResponse(
        error_code=DISABLED, error_message="No Authorizer is configured on the broker"
    )


def refuse(_call: Call, _request: DescribeAclsRequest, error_code: int) -> DescribeAclsResponse:
    """Answer with the error."""
    return DescribeAclsResponse(error_code=error_code, error_message=None)


API = Api(
    request=DESCRIBE_ACLS_REQUEST,
    response=DESCRIBE_ACLS_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    notes="SECURITY_DISABLED",
)
