"""DescribeAcls, CreateAcls and DeleteAcls: as a Kafka without an authorizer answers."""

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.create_acls import (
    CREATE_ACLS_REQUEST,
    CREATE_ACLS_RESPONSE,
    AclCreation,
    CreateAclsRequest,
)
from lacuna.wire.messages.delete_acls import (
    DELETE_ACLS_REQUEST,
    DELETE_ACLS_RESPONSE,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from lacuna.wire.messages.describe_acls import (
    DESCRIBE_ACLS_REQUEST,
    DESCRIBE_ACLS_RESPONSE,
    DescribeAclsRequest,
)
from tests.agent.apis.clusters import Setup

TOPIC, ALLOW, READ = 2, 3, 3


@pytest.mark.parametrize("version", range(4))
async def test_acls_are_disabled(setup: Setup, version: int) -> None:
    """An error for each ACL or filter, none of which would have an effect."""
    asked = DescribeAclsRequest(TOPIC, "t", operation=READ, permission_type=ALLOW)
    described = await setup.client.call(
        DESCRIBE_ACLS_REQUEST, DESCRIBE_ACLS_RESPONSE, version, asked
    )
    assert described.error_code == ErrorCode.SECURITY_DISABLED
    assert described.resources == ()
    acl = AclCreation(
        TOPIC, "t", principal="User:a", host="*", operation=READ, permission_type=ALLOW
    )
    created = await setup.client.call(
        CREATE_ACLS_REQUEST, CREATE_ACLS_RESPONSE, version, CreateAclsRequest([acl, acl])
    )
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    acls = DeleteAclsFilter(TOPIC, "t", operation=READ, permission_type=ALLOW)
    deleted = await setup.client.call(
        DELETE_ACLS_REQUEST, DELETE_ACLS_RESPONSE, version, DeleteAclsRequest([acls])
    )
    (result,) = deleted.filter_results
    assert (result.error_code, result.matching_acls) == (ErrorCode.SECURITY_DISABLED, ())
