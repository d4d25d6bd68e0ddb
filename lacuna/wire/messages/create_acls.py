"""CreateAcls. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT8, INT16, INT32, STRING
from lacuna.wire.layout import Field, Message, Struct


class AclCreation(NamedTuple):
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class CreateAclsRequest(NamedTuple):
    creations: Sequence[AclCreation] = ()


class AclCreationResult(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""


class CreateAclsResponse(NamedTuple):
    throttle_time_ms: int = 0
    results: Sequence[AclCreationResult] = ()


_ACL_CREATION: Final = Struct(
    AclCreation,
    resource_type=Field(INT8),
    resource_name=Field(STRING),
    resource_pattern_type=Field(INT8, since=1),
    principal=Field(STRING),
    host=Field(STRING),
    operation=Field(INT8),
    permission_type=Field(INT8),
)
_CREATE_ACLS_REQUEST: Final = Struct(
    CreateAclsRequest,
    creations=Field(_ACL_CREATION, is_array=True),
)
CREATE_ACLS_REQUEST: Final[Message[CreateAclsRequest]] = Message(
    _CREATE_ACLS_REQUEST, api_key=30, versions=(0, 3), first_flexible=2
)
_ACL_CREATION_RESULT: Final = Struct(
    AclCreationResult,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
)
_CREATE_ACLS_RESPONSE: Final = Struct(
    CreateAclsResponse,
    throttle_time_ms=Field(INT32),
    results=Field(_ACL_CREATION_RESULT, is_array=True),
)
CREATE_ACLS_RESPONSE: Final[Message[CreateAclsResponse]] = Message(
    _CREATE_ACLS_RESPONSE, api_key=30, versions=(0, 3), first_flexible=2
)
