"""AskControl: what an agent forwards and for whom, and the limits on a question."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, Final

import pytest

from lacuna.agent.asking import Whereabouts
from lacuna.agent.health import weaknesses
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlPlace
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import DescribeCluster, TopicPartition
from lacuna.controlplane.v1.control_pb2 import AgentAnswer, AgentQuestion, Command, SessionRequest
from lacuna.controlplane.v1.groups_pb2 import DeleteGroups, ListGroups
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from lacuna.wire.peers import ASK_CONTROL_KEY, AskControlResponse
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.agent.plane import cluster
from tests.agent.test_guards import READ_T, change

OPEN: Final = SecuritySettings()
GUARDED: Final = SecuritySettings(authorizer=STANDARD_AUTHORIZER, super_users="User:admin")


@pytest.fixture
async def setup(request: pytest.FixtureRequest) -> AsyncIterator[Setup]:
    async with (
        cluster(security=getattr(request, "param", OPEN)) as running,
        RawClient.connected(running.server.port) as client,
    ):
        yield Setup(running, client)


guarded = pytest.mark.parametrize("setup", [GUARDED], indirect=True)


async def sent(setup: Setup, question: bytes) -> AskControlResponse:
    answer: AskControlResponse = await setup.ask(ASK_CONTROL_KEY, 0, question=question)
    return answer


async def ask(setup: Setup, **question: Any) -> AgentAnswer:
    answer = await sent(setup, AgentQuestion(**question).SerializeToString())
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return AgentAnswer.FromString(answer.answer)


async def put(setup: Setup, *commands: Command) -> list[Any]:
    """Send commands, and return the results in their replies, in the same order."""
    numbered = list(commands)
    for number, command in enumerate(numbered):
        command.command_id = 7 + number
    session = SessionRequest(commands=numbered, contract=own_contract())
    replies = (await ask(setup, session=session)).session.replies
    ordered = sorted(replies, key=lambda each: each.command_id)
    assert [each.command_id for each in ordered] == [each.command_id for each in numbered]
    return [getattr(each, str(each.WhichOneof("result"))) for each in ordered]


def of(topic_ids: Iterable[bytes]) -> list[TopicPartition]:
    return [TopicPartition(topic_id=each, partition=0) for each in topic_ids]


def ids(setup: Setup, *names: str) -> list[bytes]:
    topics = setup.running.control.cluster.topics_by_name
    return [topics[each].topic_id for each in names]


async def test_a_question_has_a_reply_and_snapshots(setup: Setup) -> None:
    await setup.create("t")
    keys = of(ids(setup, "t"))
    session = SessionRequest(
        contract=own_contract(),
        subscribe=keys,
        commands=[Command(command_id=3, read_partitions=ReadPartitions(partitions=keys))],
    )
    told = (await ask(setup, session=session)).session
    (view,), (seen,), (reply,) = told.partitions, told.cluster, told.replies
    assert (view.is_snapshot, view.partition, view.high_watermark) == (True, keys[0], 0)
    assert [each.name for each in seen.topics] == ["t"]
    assert (seen.peer_secret, seen.HasField("security")) == (b"", False)
    assert reply.command_id == 3
    assert not reply.partitions_read.partitions[0].error_code


async def test_commands_that_change_something_are_not_passed_on(setup: Setup) -> None:
    (failure,) = await put(setup, Command(delete_groups=DeleteGroups(group_ids=["g"])))
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert "--control" in failure.message


@pytest.mark.parametrize(
    "question",
    [
        b"\xff",
        AgentQuestion(
            session=SessionRequest(commands=[Command(list_groups=ListGroups())] * 17)
        ).SerializeToString(),
        AgentQuestion(
            session=SessionRequest(subscribe=[TopicPartition()] * 501)
        ).SerializeToString(),
    ],
    ids=["not a question", "too many commands", "too many partitions"],
)
async def test_a_question_that_is_too_large_is_rejected(setup: Setup, question: bytes) -> None:
    assert (await sent(setup, question)).error_code == ErrorCode.INVALID_REQUEST


async def test_the_store_is_tested_by_a_put_and_a_get(setup: Setup) -> None:
    health = (await ask(setup, wants_health=True)).health
    assert health.store.problem == ""
    assert health.store.put_seconds > 0
    assert health.store.get_seconds > 0
    assert list(setup.running.context.store.list("probes/")) == []


@guarded
async def test_acls_decide_what_is_passed_on(setup: Setup) -> None:
    for name in ("t", "u"):
        await setup.create(name)
    await change(setup, added=True)
    t, u = of(ids(setup, "t", "u"))
    session = SessionRequest(contract=own_contract(), subscribe=[t, u])
    told = (await ask(setup, session=session)).session
    assert [each.name for each in told.cluster[0].topics] == ["t"]
    assert told.cluster[0].principal == "User:ANONYMOUS"
    refusals = {each.partition.topic_id: each.refusal for each in told.partitions}
    assert refusals[t.topic_id] == ""
    assert "may not READ a topic" in refusals[u.topic_id]
    seen, hidden, whole = await put(
        setup,
        Command(read_partitions=ReadPartitions(partitions=[t])),
        Command(read_partitions=ReadPartitions(partitions=[u])),
        Command(describe_cluster=DescribeCluster()),
    )
    assert not seen.partitions[0].error_code
    assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert whole.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@guarded
@pytest.mark.parametrize(
    "asked", [AgentQuestion(wants_places=True), AgentQuestion(wants_health=True)], ids=str
)
async def test_places_and_health_need_describe_on_the_cluster(
    setup: Setup, asked: AgentQuestion
) -> None:
    question = asked.SerializeToString()
    denied = await sent(setup, question)
    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (await sent(setup, b"\xff")).error_code == ErrorCode.INVALID_REQUEST
    describe = READ_T._replace(
        resource_type=ResourceType.CLUSTER,
        resource_name="kafka-cluster",
        operation=Operation.DESCRIBE,
    )
    await change(setup, added=True, acl=describe)
    assert (await sent(setup, question)).error_code == ErrorCode.NONE


async def test_weak_settings_are_named(setup: Setup) -> None:
    context = setup.running.context
    assert not [*weaknesses(context, Whereabouts(ControlPlace("127.0.0.1:7070")))]
    listeners = (Listener("PLAINTEXT", Protocol.PLAINTEXT, "0.0.0.0", 9092),)
    open_to_all = replace(context, settings=AgentSettings(listeners=listeners))
    found = [*weaknesses(open_to_all, Whereabouts(ControlPlace("control.example:7070")))]
    assert [each.partition(":")[2] for each in found] == [
        " use SSL or SASL_SSL",
        " start the agents with --authorizer",
        " use --control-tls-cert",
    ]
