"""DescribeClientQuotas v0-v1 (KIP-546): there are no quotas.

An entity type that Kafka does not have is UNSUPPORTED_VERSION, as in Kafka.
"""

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import shorten
from lacuna.wire.messages.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS_REQUEST,
    DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

ENTITY_TYPES = frozenset({"user", "client-id", "ip"})


async def handle(_call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer with no entries, or with UNSUPPORTED_VERSION for an unknown entity type."""
    for component in request.components:
        if component.entity_type not in ENTITY_TYPES:
            return DescribeClientQuotasResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message=f"Unsupported entity type {shorten(component.entity_type)}",
                entries=None,
            )
    return DescribeClientQuotasResponse()


def refuse(
    _call: Call, _request: DescribeClientQuotasRequest, error_code: int
) -> DescribeClientQuotasResponse:
    """Answer with the error and no entries."""
    return DescribeClientQuotasResponse(error_code=error_code, error_message=None, entries=None)


API = Api(
    request=DESCRIBE_CLIENT_QUOTAS_REQUEST,
    response=DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="there are no quotas",
)
