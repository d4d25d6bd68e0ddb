"""Configs. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, String, messages


class AlterableConfig(NamedTuple):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class AlterConfigsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


class AlterConfigsRequestAlterableConfig(NamedTuple):
    name: String = ""
    value: String | None = ""


class AlterConfigsRequestAlterConfigsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterConfigsRequestAlterableConfig] = ()


class AlterConfigsRequest(NamedTuple):
    resources: Sequence[AlterConfigsRequestAlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


class DescribeConfigsResource(NamedTuple):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Sequence[String] | None = ()


class DescribeConfigsRequest(NamedTuple):
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: Annotated[Bool, In(since=1)] = False
    include_documentation: Annotated[Bool, In(since=3)] = False


class DescribeConfigsSynonym(NamedTuple):
    name: Annotated[String, In(since=1)] = ""
    value: Annotated[String | None, In(since=1)] = ""
    source: Annotated[Int8, In(since=1)] = 0


class DescribeConfigsResourceResult(NamedTuple):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    is_default: Annotated[Bool, In(until=0)] = False
    config_source: Annotated[Int8, In(since=1)] = -1
    is_sensitive: Bool = False
    synonyms: Annotated[Sequence[DescribeConfigsSynonym], In(since=1)] = ()
    config_type: Annotated[Int8, In(since=3)] = 0
    documentation: Annotated[String | None, In(since=3)] = ""


class DescribeConfigsResult(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


class DescribeConfigsResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    results: Sequence[DescribeConfigsResult] = ()


class ListConfigResourcesRequest(NamedTuple):
    resource_types: Annotated[Sequence[Int8], In(since=1)] = ()


class ConfigResource(NamedTuple):
    resource_name: String = ""
    resource_type: Annotated[Int8, In(since=1)] = 16


class ListConfigResourcesResponse(NamedTuple):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Sequence[ConfigResource] = ()


INCREMENTAL_ALTER_CONFIGS_REQUEST, INCREMENTAL_ALTER_CONFIGS_RESPONSE = messages(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    api_key=44,
    versions=(0, 1),
    first_flexible=1,
)

ALTER_CONFIGS_REQUEST, ALTER_CONFIGS_RESPONSE = messages(
    AlterConfigsRequest, AlterConfigsResponse, api_key=33, versions=(0, 2), first_flexible=2
)

DESCRIBE_CONFIGS_REQUEST, DESCRIBE_CONFIGS_RESPONSE = messages(
    DescribeConfigsRequest, DescribeConfigsResponse, api_key=32, versions=(0, 4), first_flexible=4
)

LIST_CONFIG_RESOURCES_REQUEST, LIST_CONFIG_RESOURCES_RESPONSE = messages(
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    api_key=74,
    versions=(0, 1),
    first_flexible=0,
)
