"""DescribeAcls. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DescribeAclsRequest(NamedTuple):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


class AclDescription(NamedTuple):
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DescribeAclsResource(NamedTuple):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: Sequence[AclDescription] = ()


class DescribeAclsResponse(NamedTuple):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: Sequence[DescribeAclsResource] = ()


_DESCRIBE_ACLS_REQUEST: Final = Struct(
    DescribeAclsRequest,
    resource_type_filter=Field(INT8),
    resource_name_filter=Field(STRING, null_since=0),
    pattern_type_filter=Field(INT8, since=1),
    principal_filter=Field(STRING, null_since=0),
    host_filter=Field(STRING, null_since=0),
    operation=Field(INT8),
    permission_type=Field(INT8),
)
DESCRIBE_ACLS_REQUEST: Final[Message[DescribeAclsRequest]] = Message(
    _DESCRIBE_ACLS_REQUEST, api_key=29, versions=(0, 3), first_flexible=2
)
_ACL_DESCRIPTION: Final = Struct(
    AclDescription,
    principal=Field(STRING),
    host=Field(STRING),
    operation=Field(INT8),
    permission_type=Field(INT8),
)
_DESCRIBE_ACLS_RESOURCE: Final = Struct(
    DescribeAclsResource,
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    pattern_type=Field(INT8, since=1),
    acls=Field(_ACL_DESCRIPTION, is_array=True),
)
_DESCRIBE_ACLS_RESPONSE: Final = Struct(
    DescribeAclsResponse,
    throttle_time_ms=Field(INT32),
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    resources=Field(_DESCRIBE_ACLS_RESOURCE, is_array=True),
)
DESCRIBE_ACLS_RESPONSE: Final[Message[DescribeAclsResponse]] = Message(
    _DESCRIBE_ACLS_RESPONSE, api_key=29, versions=(0, 3), first_flexible=2
)
