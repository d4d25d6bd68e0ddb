"""Metadata v0-v13.

- A null topic list (an empty one in v0) means all topics; from v1 on, an empty list means none. A request names a topic
  by its name or, from v10 on, by its id (KIP-516). An unknown id returns UNKNOWN_TOPIC_ID. An illegal name returns
  INVALID_TOPIC_EXCEPTION, as does the name of an internal Kafka topic that Lacuna does not have.
- __consumer_offsets and __transaction_state are always found by name and id, and are listed among all topics once they
  have records (ADR 43). They are marked as internal and never created.
- A topic with an unknown name is created if the request allows it (always before v4), `auto_create_topics` is on and
  the name is legal. Kafka first returns an error, whereas Lacuna's answer already contains the new topic.
- The leader of a partition is a live agent chosen by rendezvous hashing, preferably in this agent's zone. The leader is
  the only replica, with leader epoch 0 (S6). Any agent can be the controller, so the answering agent names itself. The
  listed brokers are the live agents. Answers to librdkafka's producers also list agents that are hidden or gone (ADR
  58).
- If the client requests authorized operations (KIP-430), the answer lists all operations.
- Answers come from the view of the cluster, even while the control plane cannot be reached. While it can be reached,
  a view that lacks a requested topic is updated first, since another agent may have just created the topic.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from lacuna.agent import mutations, placement, rendezvous
from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.topics import metadata as guard
from lacuna.agent.internal import all_topics, is_internal, topic_by_id, topic_by_name
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.topic_names import is_legal
from lacuna.agent.views import current_view, view_with
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, Topic
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages.topics import (
    METADATA_REQUEST,
    METADATA_RESPONSE,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LEADER_NOT_AVAILABLE = 5
LEADER_EPOCH = 0
FIRST_NULL_NAME = 12


async def handle(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Answer with the requested topics in the order of the request, or with all topics sorted by name."""
    context = call.context
    cluster = await view_with(context)
    if _wants_all(call, request):
        described = (_topic(context, request, each) for each in all_topics(cluster).values())
    else:
        failed = await _create_missing(call, request)
        await _look_again(context, request, failed)
        described = (_asked(call, request, key, failed) for key in _asked_for(request))
    return _answer(call, request, await _in_steps(described))


async def _in_steps(described: Iterable[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
    """Collect the topics, and let other requests run in between, since topics may have many partitions."""
    topics, count = [], 0
    for topic in described:
        topics.append(topic)
        count += 1 + len(topic.partitions)
        if count > MOST_OF_PIECE:
            count = 0
            await asyncio.sleep(0)
    return topics


def refuse(call: Call, request: MetadataRequest, error_code: int) -> MetadataResponse:
    """Answer every named topic with the error. List no brokers, so that the client tries another bootstrap server."""
    asked = () if _wants_all(call, request) else _asked_for(request)
    return MetadataResponse(
        topics=[_failed(call, request, name, topic_id, error_code) for name, topic_id in asked],
    )


def _wants_all(call: Call, request: MetadataRequest) -> bool:
    return request.topics is None or (call.version == 0 and not request.topics)


def _asked_for(request: MetadataRequest) -> Iterable[tuple[str | None, bytes | None]]:
    asked: dict[tuple[str | None, bytes | None], None] = {}
    for topic in request.topics or ():
        has_id = topic.topic_id != ZERO_UUID
        asked[(None, topic.topic_id) if has_id else (topic.name or "", None)] = None
    return asked


async def _create_missing(call: Call, request: MetadataRequest) -> Mapping[str, int]:
    """Create missing topics where allowed, and return the errors for the others by name.

    If the client has exceeded its quota for changing topics, the answer only reports that the topic does not exist, as
    in Kafka.
    """
    context = call.context
    if not context.settings.auto_create_topics or not request.allow_auto_topic_creation:
        return {}
    cluster = context.control.cluster
    names = [
        name
        for name, _ in _asked_for(request)
        if name is not None and topic_by_name(cluster, name) is None and is_legal(name)
    ]
    if not names:
        return {}
    now = asyncio.get_running_loop().time()
    if context.quotas.are_any and mutations.owed(context.quotas, call.peer, now):
        return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = context.settings.num_partitions
    creations = [CreateTopic(name=name, partition_count=count) for name in names]
    command = call.command(create_topics=CreateTopics(topics=creations))
    try:
        results = (await context.control.call(command)).topics_created.topics
    except ControlPlaneUnavailable:
        return dict.fromkeys(names, LEADER_NOT_AVAILABLE)
    if context.quotas.are_any:
        created = sum(not each.error_code for each in results)
        mutations.spend(context.quotas, call.peer, created * count, now)
    exists = ErrorCode.TOPIC_ALREADY_EXISTS
    return {each.name: each.error_code for each in results if each.error_code not in (0, exists)}


async def _look_again(
    context: AgentContext, request: MetadataRequest, failed: Mapping[str, int]
) -> None:
    cluster = context.control.cluster
    are_missing = (
        topic_by_id(cluster, topic_id or b"") is None
        if name is None
        else topic_by_name(cluster, name) is None and name not in failed and is_legal(name)
        for name, topic_id in _asked_for(request)
    )
    if cluster.is_current and any(are_missing):
        with suppress(ControlPlaneUnavailable):
            await current_view(context)


def _asked(
    call: Call,
    request: MetadataRequest,
    key: tuple[str | None, bytes | None],
    failed: Mapping[str, int],
) -> MetadataResponseTopic:
    name, topic_id = key
    cluster = call.context.control.cluster
    if topic_id is not None:
        topic = topic_by_id(cluster, topic_id)
        missing = int(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        topic = topic_by_name(cluster, name or "")
        missing = failed.get(name or "", int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if not is_legal(name or ""):
            missing = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if topic is None:
        return _failed(call, request, name, topic_id, missing)
    return _topic(call.context, request, topic)


def _failed(
    call: Call, request: MetadataRequest, name: str | None, topic_id: bytes | None, error_code: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code,
        name="" if name is None and call.version < FIRST_NULL_NAME else name,
        topic_id=topic_id or ZERO_UUID,
        # As in Kafka, operations are returned even if the topic does not exist.
        topic_authorized_operations=(
            operations.NOT_ASKED if name is None else _operations(request)
        ),
    )


def _operations(request: MetadataRequest) -> int:
    asked = request.include_topic_authorized_operations
    return operations.TOPIC if asked else operations.NOT_ASKED


def _topic(context: AgentContext, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    node_ids = tuple(agent.node_id for agent in placement.candidates(context))
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.topic_id),
        partitions=[
            _partition(topic.topic_id, partition, node_ids)
            for partition in range(topic.partition_count)
        ],
        topic_authorized_operations=_operations(request),
    )


def _partition(
    topic_id: bytes, partition: int, node_ids: tuple[int, ...]
) -> MetadataResponsePartition:
    if not node_ids:
        return MetadataResponsePartition(
            LEADER_NOT_AVAILABLE, partition, leader_id=-1, leader_epoch=LEADER_EPOCH
        )
    leader = rendezvous.place(rendezvous.partition_key(topic_id, partition), node_ids)
    nodes = (leader,)
    return MetadataResponsePartition(ErrorCode.NONE, partition, leader, LEADER_EPOCH, nodes, nodes)


def _answer(
    call: Call, request: MetadataRequest, topics: Sequence[MetadataResponseTopic]
) -> MetadataResponse:
    context = call.context
    asked = request.include_cluster_authorized_operations
    named = placement.brokers(context, with_gone=_may_wait_for_gone(call, request))
    agents = placement.as_seen(named, call.peer.session)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(agent.node_id, agent.host, agent.port, agent.zone or None)
            for agent in agents
        ],
        cluster_id=context.control.cluster.cluster_id,
        controller_id=placement.controller(context),
        topics=topics,
        cluster_authorized_operations=operations.CLUSTER if asked else operations.NOT_ASKED,
    )


def _may_wait_for_gone(call: Call, request: MetadataRequest) -> bool:
    """Whether the client may stall if an agent that has left disappears from the list of brokers (ADR 58).

    This affects librdkafka's producers. Their requests name the topics that they write to and allow their creation,
    whereas admin clients request only brokers, or topics without creating them.
    """
    names_topics = bool(request.topics) and request.allow_auto_topic_creation
    return names_topics and call.peer.software.is_librdkafka


API = Api(
    request=METADATA_REQUEST,
    response=METADATA_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    pieces=(Pieces(("topics",), ("topics",)),),
    unavailable=LEADER_NOT_AVAILABLE,
    notes="creates topics; see [differences](#deliberate-differences)",
)
