"""DeleteTopics v1-v6.

By name, from v6 on also by id (KIP-516). A name and an id, or neither, is INVALID_REQUEST, and so is a topic that
is named twice; v5+ says in words what is wrong. Everything is keyed by topic id (S6), so a topic created anew under
the name is another.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.v1.cluster_pb2 import DeleteTopics
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_WITH_IDS = 6
_WORDS: Final = {
    int(KafkaError.unknown_topic_or_partition): "This server does not host this topic-partition.",
    int(KafkaError.unknown_topic_id): "This server does not host this topic ID.",
    int(KafkaError.invalid_request): "A topic is to be named once, by its name or by its id.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One topic as asked for, by name or by id."""

    name: str | None
    topic_id: bytes | None


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all that exist; each topic fails alone."""
    asked = _asked(request)
    repeated = Counter(asked)
    found = [_find(context, each, repeated[each]) for each in asked]
    topic_ids = [each for each in found if isinstance(each, bytes)]
    codes: dict[bytes, int] = {}
    names = {each: context.control.cluster.topics_by_id[each].name for each in topic_ids}
    if topic_ids:
        command = Command(delete_topics=DeleteTopics(topic_ids=list(names)))
        reply = (await context.control.call(command)).topics_deleted
        codes = {
            topic_id: result.error_code
            for topic_id, result in zip(names, reply.topics, strict=True)
        }
    results = []
    for each, outcome in zip(asked, found, strict=True):
        if isinstance(outcome, bytes):
            results.append(_result(request, names[outcome], outcome, codes[outcome]))
        else:
            results.append(_result(request, each.name, each.topic_id, outcome))
    return build(request, "DeleteTopicsResponse", responses=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every topic."""
    return build(
        request,
        "DeleteTopicsResponse",
        responses=tuple(
            _result(request, each.name, each.topic_id, error_code) for each in _asked(request)
        ),
    )


def _asked(request: Any) -> list[Asked]:
    if version_of(request) < FIRST_WITH_IDS:
        return [Asked(name, None) for name in request.topic_names]
    return [
        Asked(each.name, None if each.topic_id is None else each.topic_id.bytes)
        for each in request.topics
    ]


def _find(context: "AgentContext", asked: Asked, count: int) -> bytes | int:
    """The topic's id, or an error code."""
    cluster = context.control.cluster
    if count > 1 or (asked.name is None) == (asked.topic_id is None):
        return int(KafkaError.invalid_request)
    if asked.topic_id is not None:
        if asked.topic_id in cluster.topics_by_id:
            return asked.topic_id
        return int(KafkaError.unknown_topic_id)
    topic = cluster.topics_by_name.get(asked.name or "")
    return int(KafkaError.unknown_topic_or_partition) if topic is None else topic.topic_id


def _result(request: Any, name: str | None, topic_id: bytes | None, error_code: int) -> Any:
    return build(
        request,
        "DeletableTopicResult",
        name=name,
        topic_id=None if topic_id is None else UUID(bytes=topic_id),
        error_code=error_code,
        error_message=_WORDS.get(error_code),
    )


API = Api(
    key=20,
    min_version=1,
    max_version=6,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
)
