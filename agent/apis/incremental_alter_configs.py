"""IncrementalAlterConfigs v0-v1 (KIP-339): configs of topics and of groups.

A config that promises what nobody keeps is INVALID_CONFIG and never stored. All operations but DELETE need a
value, and a config is named once, else INVALID_REQUEST. To set a config of another resource is INVALID_REQUEST,
with a message that says why; to delete one succeeds, since there is none.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.config_resources import alter, altered, check_altered
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.topic_configs import DELETE
from controlplane.v1.cluster_pb2 import ConfigChange

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command a resource; each fails alone."""
    results = []
    for resource in request.resources:
        are_set = [each.config_operation != DELETE for each in resource.configs]
        found = check_altered(resource, request.resources, are_set)
        if found is None:
            found = await _alter(context, request, resource)
        results.append(altered(request, resource, *found))
    return build(request, "IncrementalAlterConfigsResponse", responses=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every resource."""
    return build(
        request,
        "IncrementalAlterConfigsResponse",
        responses=tuple(altered(request, each, error_code, "") for each in request.resources),
    )


async def _alter(context: "AgentContext", request: Any, resource: Any) -> tuple[int, str]:
    changes = [
        ConfigChange(name=each.name, operation=each.config_operation, value=each.value or "")
        for each in resource.configs
    ]
    return await alter(
        context, resource, changes, validate_only=request.validate_only, replaces_all=False
    )


API = Api(
    key=44,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="topics and groups; of other resources nothing can be set",
)
