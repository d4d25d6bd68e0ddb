"""Metadata v0-v13.

- Null topics (v0: an empty list) are all topics, an empty list is none. A topic is asked for by
  name or, from v10 on, by id (KIP-516); an unknown id is UNKNOWN_TOPIC_ID, an illegal name
  INVALID_TOPIC_EXCEPTION, and so is one of Kafka's own topics, as __consumer_offsets.
- An unknown name is created when the request allows it (v4+; always below), `auto_create_topics` is
  on and the name is legal. Unlike Kafka, which answers an error first, the answer has the new topic
  already.
- The leader of a partition is the live agent that rendezvous hashing gives, in our zone first; it
  is the only replica, leader epoch 0 (S6). Kafka's controller is any agent; the one that is asked
  names itself. A hidden agent is still among the brokers (ADR 18).
- Authorized operations (KIP-430) are given when asked for: everything.
- Answered from the view of the cluster, also while the control plane is away. While it is there, a topic that the
  view lacks is looked for once more: another agent may have just made it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis import operations
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.topic_names import is_legal
from agent.views import current_view, view_with
from controlplane.client import ControlPlaneUnavailable
from controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, Topic
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

LEADER_EPOCH = 0
FIRST_NULL_NAME = 12


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """Topics in the order asked for; those of "all" by name."""
    cluster = await view_with(context)
    if _wants_all(request):
        found = [cluster.topics_by_name[name] for name in sorted(cluster.topics_by_name)]
        topics = [_topic(context, request, topic) for topic in found]
    else:
        failed = await _create_missing(context, request)
        await _look_again(context, request, failed)
        topics = [_asked(context, request, key, failed) for key in _asked_for(request)]
    return _answer(context, request, topics)


def refuse(request: Any, error_code: int) -> Any:
    """Every named topic with the error, and no broker: the client asks another bootstrap server."""
    asked = () if _wants_all(request) else _asked_for(request)
    return build(
        request,
        "MetadataResponse",
        brokers=(),
        error_code=KafkaError.none,
        topics=tuple(_failed(request, name, topic_id, error_code) for name, topic_id in asked),
    )


def _wants_all(request: Any) -> bool:
    return request.topics is None or (version_of(request) == 0 and not request.topics)


def _asked_for(request: Any) -> Iterable[tuple[str | None, bytes | None]]:
    """(name, id) of each topic asked for, once; the id decides where it is given."""
    asked: dict[tuple[str | None, bytes | None], None] = {}
    for topic in request.topics or ():
        topic_id = getattr(topic, "topic_id", None)
        key = (None, topic_id.bytes) if topic_id is not None else (topic.name or "", None)
        asked[key] = None
    return asked


async def _create_missing(context: "AgentContext", request: Any) -> Mapping[str, int]:
    """Creates what is to be created. Errors by name, of those that could not be."""
    if not context.settings.auto_create_topics:
        return {}
    if not getattr(request, "allow_auto_topic_creation", True):
        return {}
    known = context.control.cluster.topics_by_name
    names = [
        name
        for name, _ in _asked_for(request)
        if name is not None and name not in known and is_legal(name)
    ]
    if not names:
        return {}
    count = context.settings.num_partitions
    creations = [CreateTopic(name=name, partition_count=count) for name in names]
    command = Command(create_topics=CreateTopics(topics=creations))
    try:
        results = (await context.control.call(command)).topics_created.topics
    except ControlPlaneUnavailable:
        return dict.fromkeys(names, int(KafkaError.leader_not_available))
    exists = KafkaError.topic_already_exists
    return {each.name: each.error_code for each in results if each.error_code not in (0, exists)}


async def _look_again(context: "AgentContext", request: Any, failed: Mapping[str, int]) -> None:
    cluster = context.control.cluster
    are_missing = (
        topic_id not in cluster.topics_by_id
        if name is None
        else name not in cluster.topics_by_name and name not in failed and is_legal(name)
        for name, topic_id in _asked_for(request)
    )
    if cluster.is_current and any(are_missing):
        with suppress(ControlPlaneUnavailable):
            await current_view(context)


def _asked(
    context: "AgentContext",
    request: Any,
    key: tuple[str | None, bytes | None],
    failed: Mapping[str, int],
) -> Any:
    name, topic_id = key
    cluster = context.control.cluster
    if topic_id is not None:
        topic = cluster.topics_by_id.get(topic_id)
        missing = int(KafkaError.unknown_topic_id)
    else:
        topic = cluster.topics_by_name.get(name or "")
        missing = failed.get(name or "", int(KafkaError.unknown_topic_or_partition))
        if not is_legal(name or ""):
            missing = int(KafkaError.invalid_topic_exception)
    if topic is None:
        return _failed(request, name, topic_id, missing)
    return _topic(context, request, topic)


def _failed(request: Any, name: str | None, topic_id: bytes | None, error_code: int) -> Any:
    return build(
        request,
        "MetadataResponseTopic",
        error_code=error_code,
        name="" if name is None and version_of(request) < FIRST_NULL_NAME else name,
        topic_id=None if topic_id is None else UUID(bytes=topic_id),
        partitions=(),
        # As in Kafka, what one may do with a name is told whether there is such a topic or not.
        topic_authorized_operations=(
            operations.NOT_ASKED if name is None else _operations(request)
        ),
    )


def _operations(request: Any) -> int:
    asked = getattr(request, "include_topic_authorized_operations", False)
    return operations.TOPIC if asked else operations.NOT_ASKED


def _topic(context: "AgentContext", request: Any, topic: Topic) -> Any:
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    return build(
        request,
        "MetadataResponseTopic",
        error_code=KafkaError.none,
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id),
        is_internal=False,
        partitions=tuple(
            _partition(request, topic.topic_id, partition, node_ids)
            for partition in range(topic.partition_count)
        ),
        topic_authorized_operations=_operations(request),
    )


def _partition(request: Any, topic_id: bytes, partition: int, node_ids: tuple[int, ...]) -> Any:
    leader = -1
    if node_ids:
        leader = placement.place(placement.partition_key(topic_id, partition), node_ids)
    error = KafkaError.none if node_ids else KafkaError.leader_not_available
    nodes = (leader,) if node_ids else ()
    return build(
        request,
        "MetadataResponsePartition",
        error_code=error,
        partition_index=partition,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=nodes,
        isr_nodes=nodes,
        offline_replicas=(),
    )


def _answer(context: "AgentContext", request: Any, topics: Sequence[Any]) -> Any:
    agents = placement.known_agents(context)
    asked = getattr(request, "include_cluster_authorized_operations", False)
    return build(
        request,
        "MetadataResponse",
        brokers=tuple(
            build(
                request,
                "MetadataResponseBroker",
                node_id=agent.node_id,
                host=agent.host,
                port=agent.port,
                rack=agent.zone or None,
            )
            for agent in agents
        ),
        cluster_id=context.control.cluster.cluster_id,
        controller_id=placement.controller(context),
        topics=tuple(topics),
        cluster_authorized_operations=operations.CLUSTER if asked else operations.NOT_ASKED,
        error_code=KafkaError.none,
    )


API = Api(
    key=3,
    min_version=0,
    max_version=13,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.leader_not_available,
    notes="creates topics; see below",
)
