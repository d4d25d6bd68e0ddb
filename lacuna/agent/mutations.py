"""The quota on topic changes (KIP-599): the changes that a request makes, and its answer if the quota forbids them.

Only actual changes count towards the quota. A topic that already exists, or that the client may not create, does not
count.
"""

from typing import Any, Final, NamedTuple

from lacuna.agent.api import Api, Call
from lacuna.agent.client import Peer
from lacuna.agent.quotas.limits import MUTATIONS
from lacuna.agent.quotas.mutation import Mutation, Sizes
from lacuna.agent.quotas.quotas import Quotas
from lacuna.controlplane.shared.errors import ErrorCode

_EXCEEDED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_MESSAGE: Final = "The throttling quota has been exceeded."


class Change(NamedTuple):
    api: Api[Any, Any]
    mutation: Mutation
    sizes: Sizes


def change_of(call: Call, api: Api[Any, Any], request: Any) -> Change | None:
    """Return the changes that a request would make, or None if it changes nothing."""
    mutation = api.mutation
    if mutation is None or getattr(request, "validate_only", False):
        return None
    return Change(api, mutation, mutation.sizes(call.context.control.cluster, request))


def owed(quotas: Quotas, peer: Peer, now: float) -> float:
    return quotas.delay(MUTATIONS, peer.session.principal.name, peer.client_id, now)


def spend(quotas: Quotas, peer: Peer, partitions: int, now: float) -> float:
    """Count changed partitions, and return how long the client must wait, in seconds."""
    if not partitions:
        return 0.0
    user = peer.session.principal.name
    return quotas.spend(MUTATIONS, user, peer.client_id, partitions, now)


async def refusal(call: Call, change: Change, request: Any) -> Any:
    """Reject the changes of a client that exceeds the quota, and keep the other errors in the answer."""
    if not hasattr(request, "validate_only"):
        return change.api.refuse(call, request, _EXCEEDED)
    response: Any = await change.api.handle(call, request._replace(validate_only=True))
    field = change.mutation.results
    results = [
        each
        if each.error_code
        else type(each)(name=each.name, error_code=_EXCEEDED, error_message=_MESSAGE)
        for each in getattr(response, field)
    ]
    return response._replace(**{field: results})


def changed(call: Call, change: Change, response: Any) -> int:
    """Return how many partitions a request has created or deleted, according to its response."""
    topics = call.context.control.cluster.topics_by_name
    mutation, sizes = change.mutation, change.sizes
    count = 0
    for each in getattr(response, mutation.results):
        if each.error_code:
            continue
        size = sizes.get(each.name, 0) or sizes.get(getattr(each, "topic_id", b""), 0)
        if mutation.creates and each.name in topics:
            size = topics[
                each.name
            ].partition_count  # the default, if the request did not give a number
        count += size
    return count
