"""IncrementalAlterConfigs v0-v1 (KIP-339): changes configs of topics and groups.

A config value that Lacuna cannot honour returns INVALID_CONFIG and is not stored. All operations except DELETE need a
value, and a request may name a config only once; otherwise, the resource gets INVALID_REQUEST. Setting a config of
another resource returns INVALID_REQUEST with a message that gives the reason. Deleting one succeeds, since none is set.
"""

from lacuna.agent.admin.config_resources import alter, check_altered
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import alter_configs as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import DELETE
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.wire.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS_REQUEST,
    INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Send one command for each resource. Each resource fails independently."""
    results = []
    for resource in request.resources:
        are_set = [each.config_operation != DELETE for each in resource.configs]
        found = check_altered(resource, request.resources, are_set)
        if found is None:
            changes = [
                ConfigChange(
                    name=each.name, operation=each.config_operation, value=each.value or ""
                )
                for each in resource.configs
            ]
            found = await alter(
                call,
                resource,
                changes,
                validate_only=request.validate_only,
                replaces_all=False,
            )
        results.append(_altered(resource, *found))
    return IncrementalAlterConfigsResponse(responses=results)


def refuse(
    _call: Call, request: IncrementalAlterConfigsRequest, error_code: int
) -> IncrementalAlterConfigsResponse:
    """Answer every resource with the error."""
    return IncrementalAlterConfigsResponse(
        responses=[_altered(each, error_code, "") for each in request.resources]
    )


def _altered(
    resource: AlterConfigsResource, error_code: int, message: str
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code, message or None, resource.resource_type, resource.resource_name
    )


API = Api(
    request=INCREMENTAL_ALTER_CONFIGS_REQUEST,
    response=INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    guard=guard,
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="topics, groups, and the agents together; rejects other resources",
)
