"""Acls. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import In, Int8, Int16, Int32, String, messages


class AclCreation(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Annotated[Int8, In(since=1)] = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(NamedTuple):
    creations: Sequence[AclCreation] = ()


class AclCreationResult(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[AclCreationResult] = ()


class DeleteAclsFilter(NamedTuple):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In(since=1)] = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(NamedTuple):
    filters: Sequence[DeleteAclsFilter] = ()


class DeleteAclsMatchingAcl(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In(since=1)] = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: Sequence[DeleteAclsMatchingAcl] = ()


class DeleteAclsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    filter_results: Sequence[DeleteAclsFilterResult] = ()


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


CREATE_ACLS_REQUEST, CREATE_ACLS_RESPONSE = messages(
    CreateAclsRequest, CreateAclsResponse, api_key=30, versions=(0, 3), first_flexible=2
)

DELETE_ACLS_REQUEST, DELETE_ACLS_RESPONSE = messages(
    DeleteAclsRequest, DeleteAclsResponse, api_key=31, versions=(0, 3), first_flexible=2
)

DESCRIBE_ACLS_REQUEST, DESCRIBE_ACLS_RESPONSE = messages(
    DescribeAclsRequest, DescribeAclsResponse, api_key=29, versions=(0, 3), first_flexible=2
)
