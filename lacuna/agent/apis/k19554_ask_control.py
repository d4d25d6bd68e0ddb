"""AskControl v0: passes a tool's questions to the control plane, and reports how and where the cluster runs.

This is not a Kafka API, and it is not advertised. It lets Lacuna's own commands work with only a bootstrap address. A
request holds an `AgentQuestion`, a session message, and gets a single answer, either for all of its parts or for none.
Its commands must be among `QUESTIONS`, which change nothing. The answer for a partition is a snapshot. Both the work
and the size of the answer are bounded.
"""

import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from lacuna.agent.api import NOT_ADVERTISED, Api, Call
from lacuna.agent.guards.cluster import ask_control as guard
from lacuna.agent.health import health_of
from lacuna.agent.views import current_view
from lacuna.controlplane.client import CommandRefused, PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from lacuna.controlplane.v1.control_pb2 import (
    AgentAnswer,
    AgentQuestion,
    Command,
    Failure,
    Reply,
    SessionRequest,
    SessionResponse,
)
from lacuna.controlplane.v1.log_pb2 import PartitionDelta
from lacuna.wire.peers import (
    ASK_CONTROL_REQUEST,
    ASK_CONTROL_RESPONSE,
    AskControlRequest,
    AskControlResponse,
)

_SECONDS: Final = 10.0
_MOST_COMMANDS: Final = 16
_MOST_PARTITIONS: Final = 500
_MOST_BYTES: Final = 64 << 20


async def handle(call: Call, request: AskControlRequest) -> AskControlResponse:
    try:
        question = AgentQuestion.FromString(request.question)
    except DecodeError:
        return _refused(ErrorCode.INVALID_REQUEST, "the request is not a valid query")
    session = question.session
    if len(session.commands) > _MOST_COMMANDS or len(session.subscribe) > _MOST_PARTITIONS:
        return _refused(
            ErrorCode.INVALID_REQUEST, "the query has too many parts: request fewer at a time"
        )
    try:
        # Handlers run outside of tasks, but a time limit needs a task.
        answer = await asyncio.create_task(_within_time(call, question))
    except TimeoutError:
        message = f"the control plane did not answer the agent within {_SECONDS:g} s"
        return _refused(ErrorCode.REQUEST_TIMED_OUT, message)
    if answer.ByteSize() > _MOST_BYTES:
        return _refused(
            ErrorCode.INVALID_REQUEST,
            f"the answer exceeds {_MOST_BYTES >> 20} MiB: query the control plane directly with --control",
        )
    return AskControlResponse(answer=answer.SerializeToString())


async def _within_time(call: Call, question: AgentQuestion) -> AgentAnswer:
    answer = AgentAnswer()
    if question.wants_places:
        answer.places.CopyFrom(call.context.asking.whereabouts.message())
    async with asyncio.timeout(_SECONDS):
        if question.wants_health:
            answer.health.CopyFrom(await health_of(call.context))
        if question.HasField("session"):
            answer.session.CopyFrom(await _answered(call, question.session))
    return answer


async def _answered(call: Call, session: SessionRequest) -> SessionResponse:
    answer = SessionResponse()
    if session.HasField("contract"):
        answer.cluster.append(await _cluster(call))
    for command in session.commands:
        answer.replies.append(await _reply(call, command))
    control = call.context.control
    for each in session.subscribe:
        answer.partitions.append(await _snapshot(control.partition(each.topic_id, each.partition)))
    return answer


async def _cluster(call: Call) -> ClusterDelta:
    """Describe the topics and the agents. Leave out users, ACLs and the agents' secret."""
    view = await current_view(call.context)
    await view.ready()
    return ClusterDelta(
        version=view.version,
        is_snapshot=True,
        cluster_id=view.cluster_id,
        topics=view.topics_by_id.values(),
        has_agents=True,
        agents=view.agents,
        hidden_agents=view.hidden_agents,
        leaving_node_ids=view.leaving_node_ids,
        agent_processes=view.agent_processes,
    )


async def _reply(call: Call, command: Command) -> Reply:
    if command.WhichOneof("verb") not in QUESTIONS:
        message = (
            "agents pass only queries on to the control plane: for anything else, connect to it "
            "directly with --control"
        )
        failure = Failure(error_code=ErrorCode.INVALID_REQUEST, message=message)
        return Reply(command_id=command.command_id, failure=failure)
    asked, reply = Command(), Reply()
    asked.CopyFrom(command)
    try:
        reply.CopyFrom(await call.context.control.call(asked))
    except CommandRefused as error:
        reply.failure.CopyFrom(Failure(error_code=error.code, message=error.message))
    reply.command_id = command.command_id
    return reply


async def _snapshot(view: PartitionView) -> PartitionDelta:
    partition = TopicPartition(topic_id=view.topic_id, partition=view.partition)
    await view.ready()
    return PartitionDelta(
        partition=partition,
        version=view.version,
        is_snapshot=True,
        is_deleted=view.is_deleted,
        log_start_offset=view.log_start_offset,
        high_watermark=view.high_watermark,
        last_stable_offset=view.last_stable_offset,
        vacated_to=view.vacated_to,
        dead=view.dead.pairs(),
        extents=view.extents.columns(),
    )


def _refused(error_code: int, message: str) -> AskControlResponse:
    return AskControlResponse(error_code=error_code, error_message=message)


API = Api(
    request=ASK_CONTROL_REQUEST,
    response=ASK_CONTROL_RESPONSE,
    advertised=NOT_ADVERTISED,
    handle=handle,
    refusal=lambda _call, _request, code: AskControlResponse(error_code=code),
    guard=guard,
    waits=True,
    notes="not a Kafka API: Lacuna's own commands query the control plane through it, subject to the client's ACLs",
)
