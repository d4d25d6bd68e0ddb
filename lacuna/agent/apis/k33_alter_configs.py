"""AlterConfigs v0-v2: replaces all configs of topics and groups.

Configs that the request does not name return to their defaults, so tools prefer IncrementalAlterConfigs. A null value
or a config named twice returns INVALID_REQUEST. Other resources cannot be altered. A resource that the request names
twice returns INVALID_REQUEST; Kafka never answers if it is a topic.
"""

from lacuna.agent.admin.config_resources import alter_each
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import alter_configs as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.wire.messages.configs import (
    ALTER_CONFIGS_REQUEST,
    ALTER_CONFIGS_RESPONSE,
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change the resources, each independently."""
    answers = await alter_each(
        call,
        request.resources,
        _change,
        validate_only=request.validate_only,
        replaces_all=True,
    )
    return AlterConfigsResponse(responses=[AlterConfigsResourceResponse(*each) for each in answers])


def refuse(_call: Call, request: AlterConfigsRequest, error_code: int) -> AlterConfigsResponse:
    """Answer every resource with the error."""
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error_code, None, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def _change(config: AlterConfigsRequestAlterableConfig) -> ConfigChange:
    return ConfigChange(name=config.name, value=config.value)


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
