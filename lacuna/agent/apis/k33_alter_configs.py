"""AlterConfigs v0-v2: replaces all configs of topics and groups.

Configs that the request does not name return to their defaults, so tools prefer IncrementalAlterConfigs. A null value
or a config named twice returns INVALID_REQUEST. Other resources cannot be altered. A resource that the request names
twice returns INVALID_REQUEST; Kafka never answers if it is a topic.
"""

from lacuna.agent.admin.config_resources import alter, check_altered
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import alter_configs as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.wire.messages.alter_configs import (
    ALTER_CONFIGS_REQUEST,
    ALTER_CONFIGS_RESPONSE,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Send one command for each resource. Each resource fails independently."""
    results = []
    for resource in request.resources:
        found = check_altered(resource, request.resources, [True] * len(resource.configs))
        if found is None:
            changes = [ConfigChange(name=each.name, value=each.value) for each in resource.configs]
            found = await alter(
                call,
                resource,
                changes,
                validate_only=request.validate_only,
                replaces_all=True,
            )
        results.append(_altered(resource, *found))
    return AlterConfigsResponse(responses=results)


def refuse(_call: Call, request: AlterConfigsRequest, error_code: int) -> AlterConfigsResponse:
    """Answer every resource with the error."""
    return AlterConfigsResponse(
        responses=[_altered(each, error_code, "") for each in request.resources]
    )


def _altered(
    resource: AlterConfigsResource, error_code: int, message: str
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code, message or None, resource.resource_type, resource.resource_name
    )


API = Api(
    request=ALTER_CONFIGS_REQUEST,
    response=ALTER_CONFIGS_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=refuse,
    guard=guard,
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="topics, groups, and the agents together; replaces all configs of a resource",
)
