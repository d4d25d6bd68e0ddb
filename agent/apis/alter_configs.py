"""AlterConfigs v0-v2: configs of topics and of groups, all at once.

What is not named is at its default again, so tools prefer IncrementalAlterConfigs. A null value or a config that is
named twice is INVALID_REQUEST. Nothing else can be altered; a request that names one twice gets INVALID_REQUEST
for it, where Kafka never answers for a topic.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.config_resources import alter, altered, check_altered
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.cluster_pb2 import ConfigChange

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command a resource; each fails alone."""
    results = []
    for resource in request.resources:
        found = check_altered(resource, request.resources, [True] * len(resource.configs))
        if found is None:
            found = await _alter(context, request, resource)
        results.append(altered(request, resource, *found))
    return build(request, "AlterConfigsResponse", responses=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every resource."""
    return build(
        request,
        "AlterConfigsResponse",
        responses=tuple(altered(request, each, error_code, "") for each in request.resources),
    )


async def _alter(context: "AgentContext", request: Any, resource: Any) -> tuple[int, str]:
    changes = [ConfigChange(name=each.name, value=each.value) for each in resource.configs]
    return await alter(
        context, resource, changes, validate_only=request.validate_only, replaces_all=True
    )


API = Api(
    key=33,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="topics and groups; replaces everything",
)
