"""AlterClientQuotas v0-v1 (KIP-546): quotas are not enforced, so they cannot be set.

Removing a quota succeeds, since there is none; setting one is INVALID_REQUEST with a message.
"""

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntryData,
)


async def handle(_call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Answer each entry on its own."""
    return AlterClientQuotasResponse(entries=[_result(entry) for entry in request.entries])


def refuse(
    _call: Call, request: AlterClientQuotasRequest, error_code: int
) -> AlterClientQuotasResponse:
    """Answer every entry with the error."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(error_code, None, entry.entity)
            for entry in request.entries
        ]
    )


def _result(entry: EntryData) -> AlterClientQuotasResponseEntryData:
    is_set = any(not operation.remove for operation in entry.ops)
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.INVALID_REQUEST if is_set else ErrorCode.NONE,
        error_message="Quotas are not enforced here, so they cannot be set." if is_set else None,
        entity=entry.entity,
    )


API = Api(
    request=ALTER_CLIENT_QUOTAS_REQUEST,
    response=ALTER_CLIENT_QUOTAS_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="quotas are not enforced; setting one is answered with INVALID_REQUEST",
)
