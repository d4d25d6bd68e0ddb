"""ApiVersions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class ApiVersionsRequest(NamedTuple):
    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(NamedTuple):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(NamedTuple):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


class FinalizedFeatureKey(NamedTuple):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


class ApiVersionsResponse(NamedTuple):
    error_code: int = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: int = 0
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False


_API_VERSIONS_REQUEST: Final = Struct(
    ApiVersionsRequest,
    client_software_name=Field(STRING, since=3),
    client_software_version=Field(STRING, since=3),
)
API_VERSIONS_REQUEST: Final[Message[ApiVersionsRequest]] = Message(
    _API_VERSIONS_REQUEST, api_key=18, versions=(0, 4), first_flexible=3
)
_API_VERSION: Final = Struct(
    ApiVersion,
    api_key=Field(INT16),
    min_version=Field(INT16),
    max_version=Field(INT16),
)
_SUPPORTED_FEATURE_KEY: Final = Struct(
    SupportedFeatureKey,
    name=Field(STRING, since=3),
    min_version=Field(INT16, since=3),
    max_version=Field(INT16, since=3),
)
_FINALIZED_FEATURE_KEY: Final = Struct(
    FinalizedFeatureKey,
    name=Field(STRING, since=3),
    max_version_level=Field(INT16, since=3),
    min_version_level=Field(INT16, since=3),
)
_API_VERSIONS_RESPONSE: Final = Struct(
    ApiVersionsResponse,
    error_code=Field(INT16),
    api_keys=Field(_API_VERSION, is_array=True),
    throttle_time_ms=Field(INT32, since=1),
    supported_features=Field(_SUPPORTED_FEATURE_KEY, is_array=True, since=3, tag=0),
    finalized_features_epoch=Field(INT64, since=3, tag=1),
    finalized_features=Field(_FINALIZED_FEATURE_KEY, is_array=True, since=3, tag=2),
    zk_migration_ready=Field(BOOL, since=3, tag=3),
)
API_VERSIONS_RESPONSE: Final[Message[ApiVersionsResponse]] = Message(
    _API_VERSIONS_RESPONSE, api_key=18, versions=(0, 4), first_flexible=3
)
