"""DeleteTopics v1-v6.

By name, from v6 on also by id (KIP-516). A name and an id, or neither, is INVALID_REQUEST, and so is a topic that
is named twice; v5+ says in words what is wrong. Everything is keyed by topic id (S6), so a topic created anew under
the name is another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.views import view_with
from controlplane.v1.cluster_pb2 import DeleteTopics, TopicResult
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

    @property
    def is_sound(self) -> bool:
        """One of the two is given."""
        return (self.name is None) != (self.topic_id is None)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all that exist; each topic fails alone."""
    asked = _asked(request)
    repeated = Counter(asked)
    sound = [each for each in repeated if repeated[each] == 1 and each.is_sound]
    await view_with(context, (each.name for each in sound if each.name is not None))
    deleted = await _delete(context, sound)
    results = []
    for each in asked:
        outcome = deleted.get(each)
        if outcome is None:
            results.append(_result(request, each.name, each.topic_id, KafkaError.invalid_request))
        elif outcome.error_code:
            results.append(_result(request, each.name, each.topic_id, outcome.error_code))
        else:
            results.append(_result(request, outcome.name, outcome.topic_id, KafkaError.none))
    return build(request, "DeleteTopicsResponse", responses=tuple(results))


async def _delete(context: "AgentContext", asked: Sequence[Asked]) -> Mapping[Asked, TopicResult]:
    """What became of each.

    A topic that is gone by then is UNKNOWN_TOPIC_ID. Who named it does not know ids, and means the one that has the
    name now, if there is one: the view has it once the control plane has answered (adr/0003).
    """
    results: dict[Asked, TopicResult] = {}
    left = list(asked)
    while left:
        found = {each: _topic_id(context, each) for each in left}
        unknown = TopicResult(error_code=int(KafkaError.unknown_topic_or_partition))
        results.update((each, unknown) for each, topic_id in found.items() if topic_id is None)
        topic_ids = dict.fromkeys(each for each in found.values() if each is not None)
        if not topic_ids:
            break
        command = Command(delete_topics=DeleteTopics(topic_ids=topic_ids))
        answered = (await context.control.call(command)).topics_deleted.topics
        by_id = dict(zip(topic_ids, answered, strict=True))
        results.update((each, by_id[topic_id]) for each, topic_id in found.items() if topic_id)
        gone = int(KafkaError.unknown_topic_id)
        left = [each for each in found if each.name and results[each].error_code == gone]
    return results


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


def _topic_id(context: "AgentContext", asked: Asked) -> bytes | None:
    """The id that is given, or that of the topic which has the name; None: there is none in the view."""
    if asked.topic_id is not None:
        return asked.topic_id
    topic = context.control.cluster.topics_by_name.get(asked.name or "")
    return None if topic is None else topic.topic_id


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
