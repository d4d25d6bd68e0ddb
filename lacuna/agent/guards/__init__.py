"""The guards of the APIs (`Api.guard`). Each operation requires the same rights as in Kafka."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lacuna.agent.api import Api, Call, Guard
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.registry import Registry
from lacuna.agent.rights import Rights
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import Authorizer


def guarded(
    registry: Registry,
    authorizer: Authorizer | None,
    metrics: AgentMetrics,
    clock: Callable[[], float],
) -> Registry:
    """Return the APIs wrapped in their guards, or unchanged without an authorizer. `clock` returns seconds."""
    if authorizer is None:
        return registry

    def count() -> None:
        metrics.authorizations_denied += 1

    audit = Audit(authorizer, clock, count)
    return Registry(
        api if api.guard is None else _guarded(api, api.guard, authorizer, audit)
        for api in registry.apis()
    )


def _guarded(
    api: Api[Any, Any], guard: Guard, authorizer: Authorizer, audit: Audit
) -> Api[Any, Any]:
    async def handle(call: Call, request: Any) -> Any:
        view = call.context.control.cluster
        if view.version < 0:  # there are no ACLs yet
            if api.pipelined:  # a later request could overtake one that waited at this point
                raise ControlPlaneUnavailable("the ACLs are not known yet")
            await view.ready()
        return await guard(Rights(authorizer, audit, call.peer, api.name), api, call, request)

    return replace(api, handle=handle)
