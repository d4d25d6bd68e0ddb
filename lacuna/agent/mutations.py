"""The quota on changes of topics (KIP-599): what a request changes, and its answer where a quota does not allow it.

Only what was changed counts: a topic that exists already, or that the client may not create, uses nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from lacuna.agent.api import Api, Call
from lacuna.agent.client import Peer
from lacuna.agent.quotas.limits import MUTATIONS
from lacuna.agent.quotas.quotas import Quotas
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.wire.messages.create_partitions import CreatePartitionsRequest
from lacuna.wire.messages.create_topics import CreateTopicsRequest
from lacuna.wire.messages.delete_topics import DeleteTopicsRequest

_EXCEEDED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_MESSAGE: Final = "The throttling quota has been exceeded."

#: Partitions that are created or deleted, by the name of the topic, or by its id if the request names it so.
Sizes = Mapping[str | bytes, int]


class _Form(NamedTuple):
    """How an API changes topics: the first version that is refused rather than delayed, its sizes and its results."""

    first_strict: int
    sizes: Callable[[ClusterView, Any], Sizes]
    results: str


def sizes_of(call: Call, api: Api[Any, Any], request: Any) -> Sizes | None:
    """Return what a request would change; None if it changes nothing by its kind."""
    form = _FORMS.get(api.key)
    if form is None or getattr(request, "validate_only", False):
        return None
    return form.sizes(call.context.control.cluster, request)


def owed(quotas: Quotas, peer: Peer, now: float) -> float:
    """Return how long a client waits, in seconds, before it may change topics."""
    return quotas.delay(MUTATIONS, peer.session.principal.name, peer.client_id, now)


def spend(quotas: Quotas, peer: Peer, partitions: int, now: float) -> float:
    """Count changed partitions; return how long the client waits, in seconds."""
    if not partitions:
        return 0.0
    user = peer.session.principal.name
    return quotas.spend(MUTATIONS, user, peer.client_id, partitions, now)


def is_refused(call: Call, api: Api[Any, Any]) -> bool:
    """Whether this version is refused, not delayed, while its client owes."""
    return call.version >= _FORMS[api.key].first_strict


async def refusal(call: Call, api: Api[Any, Any], request: Any) -> Any:
    """Return the answer while the client owes: what would be changed is refused, and errors are what they are."""
    if not hasattr(request, "validate_only"):
        return api.refuse(call, request, _EXCEEDED)
    response: Any = await api.handle(call, request._replace(validate_only=True))
    field = _FORMS[api.key].results
    results = [
        each
        if each.error_code
        else type(each)(name=each.name, error_code=_EXCEEDED, error_message=_MESSAGE)
        for each in getattr(response, field)
    ]
    return response._replace(**{field: results})


def changed(call: Call, api: Api[Any, Any], sizes: Sizes, response: Any) -> int:
    """Return how many partitions a request has created or deleted, by its response."""
    topics = call.context.control.cluster.topics_by_name
    count = 0
    for each in getattr(response, _FORMS[api.key].results):
        if each.error_code:
            continue
        size = sizes.get(each.name, 0) or sizes.get(getattr(each, "topic_id", b""), 0)
        if api.key == _CREATE_TOPICS and each.name in topics:
            size = topics[each.name].partition_count  # the default, if the request left it to that
        count += size
    return count


def _created(_cluster: ClusterView, request: CreateTopicsRequest) -> Sizes:
    return {
        topic.name: max(1, topic.num_partitions, len(topic.assignments)) for topic in request.topics
    }


def _added(cluster: ClusterView, request: CreatePartitionsRequest) -> Sizes:
    known = cluster.topics_by_name
    return {
        topic.name: max(0, topic.count_ - known[topic.name].partition_count)
        for topic in request.topics
        if topic.name in known
    }


def _deleted(cluster: ClusterView, request: DeleteTopicsRequest) -> Sizes:
    names = [*request.topic_names, *(topic.name for topic in request.topics if topic.name)]
    found: dict[str | bytes, Topic | None] = {}
    found.update((name, cluster.topics_by_name.get(name)) for name in names)
    found.update(
        (each.topic_id, cluster.topics_by_id.get(each.topic_id))
        for each in request.topics
        if not each.name
    )
    return {key: topic.partition_count for key, topic in found.items() if topic is not None}


_CREATE_TOPICS: Final = 19
_FORMS: Final[Mapping[int, _Form]] = {
    _CREATE_TOPICS: _Form(6, _created, "topics"),
    20: _Form(5, _deleted, "responses"),
    37: _Form(3, _added, "results"),
}
