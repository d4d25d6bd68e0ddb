"""The requests that change configs: AlterConfigs, IncrementalAlterConfigs.

IncrementalAlterConfigs v0-v1 (KIP-339): changes configs of topics, groups and agents.

A config value that Lacuna cannot honour returns INVALID_CONFIG (for an agent, INVALID_REQUEST) and is not stored. All
operations except DELETE need a value, and a request may name a config only once; otherwise, the resource gets
INVALID_REQUEST. On any other kind of resource, setting a config returns INVALID_REQUEST with a message that gives the
reason, and deleting one succeeds, since none is set.

AlterConfigs v0-v2: replaces all configs of topics, groups and agents.

Configs that the request does not name are reset to their defaults, so tools prefer IncrementalAlterConfigs. A null
value or a config named twice returns INVALID_REQUEST. Other resources cannot be altered. A resource that the request
names twice returns INVALID_REQUEST, whereas Kafka never answers the request if that resource is a topic.
"""

from collections.abc import Sequence

from lacuna.agent.admin.config_resources import AlteredResource, alter_each
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import alter_configs as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.wire.messages import configs as wire


async def change(
    call: Call, request: wire.IncrementalAlterConfigsRequest
) -> wire.IncrementalAlterConfigsResponse:
    answers = await alter_each(
        call,
        request.resources,
        _changed,
        validate_only=request.validate_only,
        replaces_all=False,
    )
    return wire.IncrementalAlterConfigsResponse(
        responses=[wire.AlterConfigsResourceResponse(*each) for each in answers]
    )


def _changed(config: wire.AlterableConfig) -> ConfigChange:
    return ConfigChange(
        name=config.name, operation=config.config_operation, value=config.value or ""
    )


async def replace(call: Call, request: wire.AlterConfigsRequest) -> wire.AlterConfigsResponse:
    answers = await alter_each(
        call,
        request.resources,
        _replaced,
        validate_only=request.validate_only,
        replaces_all=True,
    )
    return wire.AlterConfigsResponse(
        responses=[wire.AlterConfigsResourceResponse(*each) for each in answers]
    )


def _replaced(config: wire.AlterConfigsRequestAlterableConfig) -> ConfigChange:
    return ConfigChange(name=config.name, value=config.value)


def _refused(
    resources: Sequence[AlteredResource], error_code: int
) -> list[wire.AlterConfigsResourceResponse]:
    return [
        wire.AlterConfigsResourceResponse(error_code, None, each.resource_type, each.resource_name)
        for each in resources
    ]


APIS = (
    Api(
        request=wire.ALTER_CONFIGS_REQUEST,
        response=wire.ALTER_CONFIGS_RESPONSE,
        handle=replace,
        refusal=lambda _call, request, code: wire.AlterConfigsResponse(
            responses=_refused(request.resources, code)
        ),
        guard=guard,
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="topics, groups, and all agents together; replaces all configs of a resource",
    ),
    Api(
        request=wire.INCREMENTAL_ALTER_CONFIGS_REQUEST,
        response=wire.INCREMENTAL_ALTER_CONFIGS_RESPONSE,
        handle=change,
        refusal=lambda _call, request, code: wire.IncrementalAlterConfigsResponse(
            responses=_refused(request.resources, code)
        ),
        guard=guard,
        unavailable=ErrorCode.NOT_CONTROLLER,
        notes="topics, groups, and all agents together; rejects other resources",
    ),
)
