"""CreateAcls. Written by lacuna.wire.generator, not by hand."""

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


CREATE_ACLS_REQUEST, CREATE_ACLS_RESPONSE = messages(
    CreateAclsRequest, CreateAclsResponse, api_key=30, versions=(0, 3), first_flexible=2
)
