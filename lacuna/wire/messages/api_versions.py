"""ApiVersions. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int16, Int32, Int64, String, messages


class ApiVersionsRequest(NamedTuple):
    client_software_name: Annotated[String, In(since=3)] = ""
    client_software_version: Annotated[String, In(since=3)] = ""
    cluster_id: Annotated[String | None, In(since=5)] = None
    node_id: Annotated[Int32, In(since=5)] = -1


class ApiVersion(NamedTuple):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(NamedTuple):
    name: Annotated[String, In(since=3)] = ""
    min_version: Annotated[Int16, In(since=3)] = 0
    max_version: Annotated[Int16, In(since=3)] = 0


class FinalizedFeatureKey(NamedTuple):
    name: Annotated[String, In(since=3)] = ""
    max_version_level: Annotated[Int16, In(since=3)] = 0
    min_version_level: Annotated[Int16, In(since=3)] = 0


class ApiVersionsResponse(NamedTuple):
    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    supported_features: Annotated[Sequence[SupportedFeatureKey], In(since=3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, In(since=3, tag=1)] = -1
    finalized_features: Annotated[Sequence[FinalizedFeatureKey], In(since=3, tag=2)] = ()
    zk_migration_ready: Annotated[Bool, In(since=3, tag=3)] = False


API_VERSIONS_REQUEST, API_VERSIONS_RESPONSE = messages(
    ApiVersionsRequest, ApiVersionsResponse, api_key=18, versions=(0, 5), first_flexible=3
)
