"""DeleteAcls. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class DeleteAclsFilter(NamedTuple):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsRequest(NamedTuple):
    filters: Sequence[DeleteAclsFilter] = ()


class DeleteAclsMatchingAcl(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsFilterResult(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: Sequence[DeleteAclsMatchingAcl] = ()


class DeleteAclsResponse(NamedTuple):
    throttle_time_ms: int = 0
    filter_results: Sequence[DeleteAclsFilterResult] = ()


_DELETE_ACLS_FILTER: Final = Struct(
    DeleteAclsFilter,
    resource_type_filter=Field(INT8),
    resource_name_filter=Field(STRING, null_since=0),
    pattern_type_filter=Field(INT8, since=1),
    principal_filter=Field(STRING, null_since=0),
    host_filter=Field(STRING, null_since=0),
    operation=Field(INT8),
    permission_type=Field(INT8),
)
_DELETE_ACLS_REQUEST: Final = Struct(
    DeleteAclsRequest,
    filters=Field(_DELETE_ACLS_FILTER, is_array=True),
)
DELETE_ACLS_REQUEST: Final[Message[DeleteAclsRequest]] = Message(
    _DELETE_ACLS_REQUEST, api_key=31, versions=(0, 3), first_flexible=2
)
_DELETE_ACLS_MATCHING_ACL: Final = Struct(
    DeleteAclsMatchingAcl,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    pattern_type=Field(INT8, since=1),
    principal=Field(STRING),
    host=Field(STRING),
    operation=Field(INT8),
    permission_type=Field(INT8),
)
_DELETE_ACLS_FILTER_RESULT: Final = Struct(
    DeleteAclsFilterResult,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    matching_acls=Field(_DELETE_ACLS_MATCHING_ACL, is_array=True),
)
_DELETE_ACLS_RESPONSE: Final = Struct(
    DeleteAclsResponse,
    throttle_time_ms=Field(INT32),
    filter_results=Field(_DELETE_ACLS_FILTER_RESULT, is_array=True),
)
DELETE_ACLS_RESPONSE: Final[Message[DeleteAclsResponse]] = Message(
    _DELETE_ACLS_RESPONSE, api_key=31, versions=(0, 3), first_flexible=2
)
