"""Tests a session's client with scripted responses, and with long commands and responses sent in parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.client import CommandRefused, SessionClient, SessionLimits
from lacuna.controlplane.client import parts as client_parts
from lacuna.controlplane.client.parts import call_in_parts
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    AlterGroupConfigs,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply, SessionRequest, SessionResponse
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    DescribeGroups,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchGroup,
)
from lacuna.controlplane.verbs import parts as server_parts
from lacuna.controlplane.verbs import reading
from lacuna.controlplane.verbs.groups import admin, committing, configuring
from tests.controlplane.runtime.rig import heartbeat
from tests.controlplane.verbs.cluster import Cluster, init_of
from tests.doubles.clock import iterations


class Door:
    """A stream to a control plane."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[SessionResponse | None] = asyncio.Queue()
        self.heard: asyncio.Queue[SessionRequest] = asyncio.Queue()

    @asynccontextmanager
    async def connect(self, _: str) -> AsyncIterator["Door"]:
        yield self

    async def read(self) -> SessionResponse | None:
        return await self.said.get()

    async def write(self, request: SessionRequest) -> None:
        self.heard.put_nowait(request)

    def cancel(self) -> None:
        raise AssertionError("there is no reason to give this stream up")


def _offsets(**named: Any) -> Command:
    return Command(offset_fetch=OffsetFetch(groups=[OffsetFetchGroup(group_id="g", **named)]))


@pytest.mark.parametrize(
    ("command", "suspect_after", "is_sent_again"),
    [
        (Command(list_groups=ListGroups()), 0, False),
        (Command(list_groups=ListGroups()), 1_000, True),
        (heartbeat(), 0, True),
        (_offsets(all_partitions=True), 0, False),
        (_offsets(partitions=[TopicPartition()] * 101), 0, False),
        (_offsets(partitions=[TopicPartition()] * 100), 0, True),
    ],
)
async def test_what_may_have_silenced_a_leader_is_not_sent_to_the_next_one(
    command: Command, suspect_after: float, is_sent_again: bool
) -> None:
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    doors = [Door(), Door()]
    for door in doors:
        door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1, cluster=[snapshot]))
    closed = iter(doors)
    limits = SessionLimits(suspect_after=suspect_after)
    sleep = partial(asyncio.sleep, 0.001)
    client = SessionClient(
        ["a"],
        lambda address: next(closed).connect(address),
        lambda: 0.0,
        limits,
        sleep=lambda _: sleep(),
    )
    client.start()
    calling = asyncio.ensure_future(client.call(command))
    await doors[0].heard.get()
    doors[0].said.put_nowait(None)
    if is_sent_again:
        (again,) = (await doors[1].heard.get()).commands
        assert again == command
        calling.cancel()
    else:
        with pytest.raises(CommandRefused, match="was in progress when the control plane fell"):
            await calling
    await client.close()


async def test_nothing_is_sent_before_the_cluster_is_current() -> None:
    """A leader with a slow journal first sends an empty message to show that it is alive."""
    door = Door()
    client = SessionClient(["a"], door.connect, lambda: 0.5)
    client.start()
    calling = asyncio.ensure_future(client.call(heartbeat()))
    door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1))
    await iterations()
    assert door.said.empty()
    assert not client.cluster.is_current
    assert door.heard.empty()
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    door.said.put_nowait(SessionResponse(cluster=[snapshot]))
    request = await door.heard.get()
    assert client.cluster.is_current
    (command,) = request.commands
    door.said.put_nowait(SessionResponse(replies=[Reply(command_id=command.command_id)]))
    assert (await calling).command_id == command.command_id
    await client.close()


async def test_many_partitions_are_subscribed_and_unsubscribed_by_several_messages() -> None:
    door = Door()
    limits = SessionLimits(max_message_wishes=10, max_partitions=5)
    client = SessionClient(["a"], door.connect, lambda: 0.5, limits)
    client.start()
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1, cluster=[snapshot]))
    await client.cluster.ready()
    reading = [asyncio.ensure_future(client.partition(b"t" * 16, n).ready()) for n in range(25)]
    asked: list[int] = []
    while len(asked) < len(reading):
        request = await door.heard.get()
        assert len(request.subscribe) <= 10
        asked += [each.partition for each in request.subscribe]
    assert asked == [*range(25)]
    for each in reading:  # so all but five are unsubscribed
        each.cancel()
    calling = asyncio.ensure_future(client.call(heartbeat()))
    left: list[int] = []
    while len(left) < 20:
        request = await door.heard.get()
        assert len(request.unsubscribe) <= 10
        left += [each.partition for each in request.unsubscribe]
    assert left == [*range(20)]
    calling.cancel()
    await client.close()


PARTITIONS = 7


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster()
    topic_id = cluster.create("a", PARTITIONS)
    for group in range(5):
        offsets = [
            CommittedOffset(
                partition=TopicPartition(topic_id=topic_id, partition=each), offset=each
            )
            for each in range(group, PARTITIONS)
        ]
        wanted = OffsetCommit(group_id=f"g{group}", generation_id=-1, offsets=offsets)
        cluster.do("offset_commit", wanted)
        change = {"name": "consumer.session.timeout.ms", "value": "50000"}
        cluster.do("alter_group_configs", AlterGroupConfigs(group_id=f"g{group}", changes=[change]))
    for number in range(5):
        wanted_id = init_of(f"t{number}", 9_000)
        cluster.do("init_producer_id", wanted_id)
        for each in range(3):
            cluster.put(f"a-{each}", producer=(number + 100, 0), sequence=0)
    return cluster


def _all(cluster: Cluster, count: int = PARTITIONS) -> list[TopicPartition]:
    topic_id = cluster.state.topics_by_name["a"].topic_id
    return [TopicPartition(topic_id=topic_id, partition=index) for index in range(count)]


#: The fields of a command of each verb.
COMMANDS: dict[str, Callable[[Cluster], Any]] = {
    "read_partitions": lambda c: {"partitions": _all(c, 9)},
    "read_histories": lambda c: {"partitions": _all(c, 9)},
    "describe_groups": lambda c: {"group_ids": ["g0", "no", "g1", "g0"]},
    "describe_transactions": lambda c: {"transactional_ids": ["t1", "no", "t0"]},
    "describe_producers": lambda c: {"partitions": _all(c, 9)},
    "list_groups": lambda c: {"types": ["classic"]},
    "list_transactions": lambda c: {"states": ["Empty", "odd"]},
    "describe_group_configs": lambda c: {"all_groups": True},
    "offset_fetch": lambda c: {
        "groups": [
            {"group_id": "g1", "all_partitions": True},
            {"group_id": "g0", "partitions": _all(c, 9)},
            {"group_id": "no", "all_partitions": True},
            {"group_id": "g2", "all_partitions": True},
            {"group_id": "g0"},
        ]
    },
    "delete_offsets": lambda c: {"group_id": "no", "partitions": _all(c)},
    "delete_topics": lambda c: {"topic_ids": [bytes(16)] * 5},
    "delete_groups": lambda c: {"group_ids": ["no", "none", "nowhere", "no"]},
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, cluster: Cluster) -> Command:
    return Command(**{request.param: COMMANDS[request.param](cluster)})


def _asks(cluster: Cluster, sent: list[Command]) -> Callable[[Command], Any]:
    async def call(command: Command) -> Reply:
        sent.append(command)
        reply = machine.handle(cluster.state, command, cluster.context()).reply
        assert reply is not None
        if reply.HasField("failure"):
            raise AssertionError(reply.failure.message)
        return reply

    return call


def test_an_answer_in_parts_is_that_of_one_command(
    cluster: Cluster, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = asyncio.run(call_in_parts(_asks(cluster, []), command))
    for module in (client_parts, server_parts):
        monkeypatch.setattr(module, "MOST_ITEMS", 2)
    for module in (reading, admin, committing, configuring):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    sent: list[Command] = []
    assert asyncio.run(call_in_parts(_asks(cluster, sent), command)) == whole
    is_refused_at_once = command.WhichOneof("verb") == "delete_offsets"
    assert len(sent) == 1 if is_refused_at_once else len(sent) > 1


def test_an_answer_ends_once_it_is_large(
    cluster: Cluster, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = asyncio.run(call_in_parts(_asks(cluster, []), command))
    monkeypatch.setattr(server_parts, "ANSWER_BYTES", 1)
    assert asyncio.run(call_in_parts(_asks(cluster, []), command)) == whole


def test_a_command_that_names_too_many_things_is_refused(cluster: Cluster) -> None:
    commands: dict[str, Any] = {
        "describe_groups": DescribeGroups(group_ids=["g"] * 2_001),
        "offset_commit": OffsetCommit(group_id="g", offsets=[CommittedOffset()] * 20_001),
        "offset_fetch": OffsetFetch(
            groups=[OffsetFetchGroup(group_id="g", partitions=[TopicPartition()] * 20_001)]
        ),
    }
    for verb, message in commands.items():
        reply = machine.handle(cluster.state, Command(**{verb: message}), cluster.context()).reply
        assert reply is not None
        assert reply.failure.error_code == ErrorCode.INVALID_REQUEST, verb
        assert "at most" in reply.failure.message
