"""CreateAcls v0-v3: SECURITY_DISABLED for each ACL, as Kafka answers without an authorizer."""

from lacuna.agent.admin.security import DISABLED, NO_AUTHORIZER
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.create_acls import (
    CREATE_ACLS_REQUEST,
    CREATE_ACLS_RESPONSE,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(_call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse every ACL, since none would be enforced."""
    result = AclCreationResult(DISABLED, NO_AUTHORIZER)
    return CreateAclsResponse(results=[result] * len(request.creations))


def refuse(_call: Call, request: CreateAclsRequest, error_code: int) -> CreateAclsResponse:
    """Answer every ACL with the error."""
    result = AclCreationResult(error_code, None)
    return CreateAclsResponse(results=[result] * len(request.creations))


API = Api(
    request=CREATE_ACLS_REQUEST,
    response=CREATE_ACLS_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    notes="SECURITY_DISABLED",
)
