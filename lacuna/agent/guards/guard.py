"""The kinds of guards. If there is an authorizer, a guard runs before a request's handler.

A guard passes the permitted part of a request to the handler, and answers the rest with errors. Handlers therefore
contain no code for rights, and without an authorizer none of this code runs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lacuna.agent.api import AnyApi, Call, Guard
from lacuna.agent.context import AgentContext
from lacuna.agent.internal import topic_by_id
from lacuna.agent.rights import Rights
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID


def on_cluster(*operations: Operation) -> Guard:
    """Return a guard that requires one of these operations on the cluster. Only the last denial is logged."""

    async def guard(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
        last = operations[-1]
        if any(rights.may_cluster(each, is_logged=each is last) for each in operations):
            return await api.handle(call, request)
        return api.refuse(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return guard


def on_group(operation: Operation) -> Guard:
    """Return the guard for an API that concerns the group `request.group_id`."""

    async def guard(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
        code = rights.error(operation, ResourceType.GROUP, request.group_id)
        return await whole(api, call, request, code)

    return guard


def on_each(
    asked: str, answered: str, operation: Operation, resource_type: ResourceType, name: str = ""
) -> Guard:
    """Return the guard for an API that concerns several resources, each with a separate answer.

    The resources are the elements of `request.asked`, and `name` is the field that names each; without `name`, the
    elements themselves are names. The answers for the resources are the elements of `response.answered`.
    """

    async def guard(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
        def code_of(each: Any) -> int:
            return rights.error(operation, resource_type, getattr(each, name) if name else each)

        return await split(api, call, request, asked, answered, code_of)

    return guard


async def whole(api: AnyApi, call: Call, request: Any, code: int) -> Any:
    """Reject a request with an error code, or pass it to the handler if the code is 0."""
    return api.refuse(call, request, code) if code else await api.handle(call, request)


async def split(
    api: AnyApi,
    call: Call,
    request: Any,
    asked: str,
    answered: str,
    code_of: Callable[[Any], int],
) -> Any:
    """Pass the elements of `request.asked` for which `code_of` returns 0 to the handler, and reject the others."""
    elements = getattr(request, asked)
    codes = [code_of(each) for each in elements]
    if not any(codes):
        return await api.handle(call, request)
    responses = []
    for code in dict.fromkeys(
        sorted(codes)
    ):  # the permitted part first, since its handler may have to wait
        some = [each for each, its in zip(elements, codes, strict=True) if its == code]
        part = request._replace(**{asked: some})
        if code:
            responses.append(api.refuse(call, part, code))
        else:
            responses.append(await api.handle(call, part))
    return joined(responses, answered)


def joined(responses: Sequence[Any], answered: str) -> Any:
    """Join the answers' elements, or return None if the first response is None (no answer is expected)."""
    if responses[0] is None:
        return None
    elements = [each for response in responses for each in getattr(response, answered)]
    return responses[0]._replace(**{answered: elements})


def name_of(context: AgentContext, name: str | None, topic_id: bytes) -> str | None:
    """Return the name of a topic given by name or id, or None if no topic has the id."""
    if name:
        return name
    topic = topic_by_id(context.control.cluster, topic_id)
    return None if topic is None else topic.name


async def look_for(call: Call, topic_ids: Iterable[bytes]) -> None:
    """Update the view if it lacks one of these topics, since the rights to a topic depend on its name."""
    wanted = (each for each in topic_ids if each != ZERO_UUID)
    if any(topic_by_id(call.context.control.cluster, each) is None for each in wanted):
        await current_view(call.context)
