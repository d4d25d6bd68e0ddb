"""Throttles requests: what each one uses, and what its client is told (KIP-219).

An answer leaves at once and says how long the client waits; meanwhile no further request of its connection is served.
Only a request that would change topics beyond a quota is refused, by versions that know of it (KIP-599).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lacuna.agent.api import Api, Call
from lacuna.agent.quotas.limits import CONSUMED, MUTATIONS, PRODUCED, REQUESTS
from lacuna.agent.registry import FETCH_KEY, PRODUCE_KEY
from lacuna.wire.layout import Buffer
from lacuna.wire.peers import READ_CHUNK_KEY

if TYPE_CHECKING:
    from lacuna.controlplane.client import ClusterView
    from lacuna.wire.messages.create_partitions import CreatePartitionsRequest
    from lacuna.wire.messages.create_topics import CreateTopicsRequest
    from lacuna.wire.messages.delete_topics import DeleteTopicsRequest

_THROTTLE_TIME: Final = "throttle_time_ms"
#: request_percentage counts the time of one agent's event loop: all of a second is 100.
_PERCENT: Final = 100.0


def may_change_topics(call: Call, api: Api[Any, Any], request: Any, now: float) -> float:
    """Count the partitions that a request creates or deletes; return how long it is refused for, 0 if it is served."""
    mutation = _MUTATIONS.get(api.key)
    if mutation is None or getattr(request, "validate_only", False):
        return 0.0
    first_strict, count = mutation
    quotas, peer = call.context.quotas, call.peer
    user, client_id = peer.session.principal.name, peer.client_id
    if call.version >= first_strict:
        delay = quotas.delay(MUTATIONS, user, client_id, now)
        if delay:
            return delay
    quotas.spend(MUTATIONS, user, client_id, count(call.context.control.cluster, request), now)
    return 0.0


def spent(call: Call, api: Api[Any, Any], size: int, body: Sequence[Buffer], now: float) -> float:
    """Count a request of `size` bytes and its answer; return how long its client waits, in seconds."""
    quotas, peer = call.context.quotas, call.peer
    user, client_id = peer.session.principal.name, peer.client_id
    delay = quotas.delay(REQUESTS, user, client_id, now)
    if api.key == PRODUCE_KEY:
        delay = max(delay, quotas.spend(PRODUCED, user, client_id, size, now))
    elif api.key == FETCH_KEY:
        delay = max(delay, quotas.spend(CONSUMED, user, client_id, sum(map(len, body)), now))
    elif api.key in _MUTATIONS:
        delay = max(delay, quotas.delay(MUTATIONS, user, client_id, now))
    return delay


def spent_seconds(call: Call, api: Api[Any, Any], seconds: float, now: float) -> float:
    """Count the time of the event loop that a request took; return how long its client waits, in seconds."""
    if api.key == READ_CHUNK_KEY:
        return 0.0
    peer = call.peer
    user, client_id = peer.session.principal.name, peer.client_id
    return call.context.quotas.spend(REQUESTS, user, client_id, seconds * _PERCENT, now)


def told(response: Any, seconds: float) -> Any:
    """Return an answer that says how long its client waits, if such answers do."""
    if _THROTTLE_TIME not in response._fields:
        return response
    return response._replace(throttle_time_ms=math.ceil(seconds * 1000))


def _created(_cluster: "ClusterView", request: "CreateTopicsRequest") -> int:
    return sum(max(1, topic.num_partitions, len(topic.assignments)) for topic in request.topics)


def _added(cluster: "ClusterView", request: "CreatePartitionsRequest") -> int:
    known = cluster.topics_by_name
    return sum(
        max(0, topic.count_ - known[topic.name].partition_count)
        for topic in request.topics
        if topic.name in known
    )


def _deleted(cluster: "ClusterView", request: "DeleteTopicsRequest") -> int:
    names = [*request.topic_names, *(topic.name for topic in request.topics)]
    ids = [topic.topic_id for topic in request.topics]
    named = (cluster.topics_by_name.get(name) for name in names if name)
    numbered = (cluster.topics_by_id.get(topic_id) for topic_id in ids)
    return sum(topic.partition_count for topic in (*named, *numbered) if topic is not None)


#: API key -> the first version that is refused rather than delayed, and how many partitions a request changes.
_MUTATIONS: Final[Mapping[int, tuple[int, Callable[["ClusterView", Any], int]]]] = {
    19: (6, _created),
    20: (5, _deleted),
    37: (3, _added),
}
