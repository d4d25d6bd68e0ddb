"""IncrementalAlterConfigs v0-v1 (KIP-339): changes configs of topics and groups.

A config value that Lacuna cannot honour returns INVALID_CONFIG and is not stored. All operations except DELETE need a
value, and a request may name a config only once; otherwise, the resource gets INVALID_REQUEST. Setting a config of
another resource returns INVALID_REQUEST with a message that gives the reason. Deleting one succeeds, since none is set.
"""

from lacuna.agent.admin.config_resources import alter_each
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import alter_configs as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.wire.messages.configs import (
    INCREMENTAL_ALTER_CONFIGS_REQUEST,
    INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change the resources, each independently."""
    answers = await alter_each(
        call,
        request.resources,
        _change,
        validate_only=request.validate_only,
        replaces_all=False,
    )
    return IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(*each) for each in answers]
    )


def refuse(
    _call: Call, request: IncrementalAlterConfigsRequest, error_code: int
) -> IncrementalAlterConfigsResponse:
    """Answer every resource with the error."""
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error_code, None, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def _change(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(
        name=config.name, operation=config.config_operation, value=config.value or ""
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
