"""DeleteAcls v0-v3: SECURITY_DISABLED for each filter, as Kafka answers without an authorizer."""

from lacuna.agent.admin.security import DISABLED, NO_AUTHORIZER
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.delete_acls import (
    DELETE_ACLS_REQUEST,
    DELETE_ACLS_RESPONSE,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(_call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse every filter, since there are no ACLs."""
    result = DeleteAclsFilterResult(DISABLED, NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def refuse(_call: Call, request: DeleteAclsRequest, error_code: int) -> DeleteAclsResponse:
    """Answer every filter with the error."""
    result = DeleteAclsFilterResult(error_code, None)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


API = Api(
    request=DELETE_ACLS_REQUEST,
    response=DELETE_ACLS_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    notes="SECURITY_DISABLED",
)
