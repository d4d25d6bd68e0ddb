"""DescribeAcls. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, String, messages


class DescribeAclsRequest(NamedTuple):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In(since=1)] = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(NamedTuple):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In(since=1)] = 3
    acls: Sequence[AclDescription] = ()


class DescribeAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: Sequence[DescribeAclsResource] = ()


DESCRIBE_ACLS_REQUEST, DESCRIBE_ACLS_RESPONSE = messages(
    DescribeAclsRequest, DescribeAclsResponse, api_key=29, versions=(0, 3), first_flexible=2
)
