"""DescribeClientQuotas and AlterClientQuotas: no quota is enforced, so none can be set."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from lacuna.wire.messages.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS_REQUEST,
    DESCRIBE_CLIENT_QUOTAS_RESPONSE,
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.agent.apis.clusters import Setup

ANY = 2


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("remove", "error_code"), [(False, ErrorCode.INVALID_REQUEST), (True, ErrorCode.NONE)]
)
async def test_a_quota_can_be_removed_but_not_set(
    setup: Setup, version: int, remove: bool, error_code: int
) -> None:
    """Tools remove what they might have set."""
    entity = EntityData("client-id", "a")
    entry = EntryData([entity], [OpData("producer_byte_rate", 1.5, remove)])
    answer = await setup.client.call(
        ALTER_CLIENT_QUOTAS_REQUEST,
        ALTER_CLIENT_QUOTAS_RESPONSE,
        version,
        AlterClientQuotasRequest([entry], validate_only=False),
    )
    (found,) = answer.entries
    assert found.error_code == error_code
    assert [(each.entity_type, each.entity_name) for each in found.entity] == [("client-id", "a")]
    assert remove or "not enforced" in str(found.error_message)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("entity_type", "error_code", "entries"),
    [("user", ErrorCode.NONE, ()), ("planet", ErrorCode.UNSUPPORTED_VERSION, None)],
)
async def test_there_are_no_quotas(
    setup: Setup, version: int, entity_type: str, error_code: int, entries: object
) -> None:
    """And Kafka's error for a type of entity that it does not have."""
    answer = await setup.client.call(
        DESCRIBE_CLIENT_QUOTAS_REQUEST,
        DESCRIBE_CLIENT_QUOTAS_RESPONSE,
        version,
        DescribeClientQuotasRequest([ComponentData(entity_type, ANY, None)]),
    )
    assert (answer.error_code, answer.entries) == (error_code, entries)
