"""Metadata: which topics, which leaders, which errors."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from agent import placement
from agent.apis import operations
from agent.apis.schema import request_class
from agent.settings import AgentSettings
from controlplane.client import ControlPlaneUnavailable
from controlplane.v1.cluster_pb2 import Agent, ClusterDelta, Topic, TopicResult, TopicsCreated
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionsRead
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    make_context,
    serving,
    snapshot,
)

TOPIC = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)
NOT_ASKED = -(2**31)


def asked(version: int, name: str | None, topic_id: bytes | None = None) -> object:
    module = __import__(
        f"kio.schema.metadata.v{version}.request", fromlist=["MetadataRequestTopic"]
    )
    fields: dict[str, object] = {"name": name}
    if version >= 10:
        fields["topic_id"] = None if topic_id is None else UUID(bytes=topic_id)
    return module.MetadataRequestTopic(**fields)


def request_fields(version: int, topics: object, *, create: bool = False) -> dict[str, object]:
    names = request_class(3, version).__dataclass_fields__
    fields: dict[str, object] = {"topics": topics}
    if "allow_auto_topic_creation" in names:
        fields["allow_auto_topic_creation"] = create
    for name in (
        "include_topic_authorized_operations",
        "include_cluster_authorized_operations",
    ):
        if name in names:
            fields[name] = False
    return fields


class Setup:
    def __init__(self, settings: AgentSettings | None = None) -> None:
        self.control = ScriptedControl()
        self.control.cluster.apply(snapshot(TOPIC))
        self.context = make_context(self.control, settings)

    async def ask(self, version: int, topics: object, *, create: bool = False) -> Any:
        async with serving(self.context) as server:
            client = await RawClient.connect(server.port)
            try:
                return await client.ask(
                    3, version, **request_fields(version, topics, create=create)
                )
            finally:
                await client.close()


@pytest.mark.parametrize("version", range(14))
async def test_a_known_topic_at_every_version(version: int) -> None:
    """S6: leader epoch 0, the leader is the only replica."""
    answer = await Setup().ask(version, (asked(version, "t"),))
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "t", 3)
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.error_code, partition.leader_id) == (
            index,
            0,
            1,
        )
        assert partition.replica_nodes == partition.isr_nodes == (1,)
        assert getattr(partition, "leader_epoch", 0 if version < 7 else None) == 0
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert getattr(answer, "controller_id", 1) == 1
    assert getattr(topic, "topic_authorized_operations", NOT_ASKED) == NOT_ASKED
    if version >= 10:
        assert topic.topic_id == UUID(bytes=TOPIC_ID)


@pytest.mark.parametrize("version", [8, 13])
async def test_operations_are_told_of_names_that_are_no_topics_too(version: int) -> None:
    topics = [asked(version, name) for name in ("t", "no", "/")]
    topics += [asked(version, None, b"n" * 16)] * (version >= 12)
    fields = request_fields(version, tuple(topics)) | {"include_topic_authorized_operations": True}
    async with serving(Setup().context) as server:
        client = await RawClient.connect(server.port)
        answer = await client.ask(3, version, **fields)
        await client.close()
    told = [topic.topic_authorized_operations for topic in answer.topics]
    assert told[:3] == [operations.TOPIC] * 3
    assert set(told[3:]) <= {NOT_ASKED}


@pytest.mark.parametrize(
    ("version", "topics", "count"),
    [(0, (), 1), (1, (), 0), (1, None, 1), (13, (), 0), (13, None, 1)],
)
async def test_null_is_all_and_empty_is_none(version: int, topics: object, count: int) -> None:
    """But v0 has no null: there an empty list is all."""
    assert len((await Setup().ask(version, topics)).topics) == count


@pytest.mark.parametrize(
    ("name", "topic_id", "error"),
    [
        (None, TOPIC_ID, 0),
        (None, b"x" * 16, 100),
        ("nope", None, 3),
        ("a/b", None, 17),
        ("", None, 17),
        (".", None, 17),
        ("x" * 250, None, 17),
        ("__consumer_offsets", None, 17),
    ],
)
async def test_errors_of_names_and_ids(
    name: str | None, topic_id: bytes | None, error: int
) -> None:
    (topic,) = (await Setup().ask(12, (asked(12, name, topic_id),))).topics
    assert topic.error_code == error
    assert len(topic.partitions) == (0 if error else 3)
    assert topic.name == ("t" if error == 0 else name)


def created(control: ScriptedControl) -> Callable[[Command], Reply]:
    def answer(command: Command) -> Reply:
        topics = [
            Topic(
                topic_id=each.name.encode() * 16,
                name=each.name,
                partition_count=each.partition_count,
            )
            for each in command.create_topics.topics
        ]
        control.cluster.apply(ClusterDelta(version=2, topics=topics))
        return Reply(
            topics_created=TopicsCreated(topics=[TopicResult(name=topic.name) for topic in topics])
        )

    return answer


async def test_unknown_topics_are_created_when_all_agree() -> None:
    setup = Setup(AgentSettings(num_partitions=4))
    setup.control.answers["create_topics"] = created(setup.control)
    asked_for = ("n", "t", "a/b", "__consumer_offsets", "n")
    names = tuple(asked(12, name) for name in asked_for)
    answer = await setup.ask(12, names, create=True)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        ("n", 0, 4),
        ("t", 0, 3),
        ("a/b", 17, 0),
        ("__consumer_offsets", 17, 0),
    ]
    (command,) = setup.control.calls
    assert [each.name for each in command.create_topics.topics] == ["n"]


async def test_creation_is_off_by_request_or_by_setting() -> None:
    for setup, create in ((Setup(), False), (Setup(AgentSettings(auto_create_topics=False)), True)):
        (topic,) = (await setup.ask(9, (asked(9, "n"),), create=create)).topics
        assert topic.error_code == 3
        assert not any(each.HasField("create_topics") for each in setup.control.calls)


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_topic_that_another_agent_has_just_made_is_there(by_id: bool) -> None:
    """A tool makes it through one agent, and a consumer that may make none asks the next one."""
    setup, new_id = Setup(), TOPIC_ID[::-1]

    def come(_: Command) -> Reply:
        new = Topic(topic_id=new_id, name="n", partition_count=1)
        setup.control.cluster.apply(snapshot(TOPIC, new))
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = come
    named = asked(12, None, new_id) if by_id else asked(12, "n")
    for _ in range(2):
        (topic,) = (await setup.ask(12, (named,))).topics
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "n", 1)
    assert len(setup.control.calls) == 1


@pytest.mark.parametrize("is_known", [False, True])
async def test_an_unknown_topic_is_told_from_the_view_without_a_control_plane(
    is_known: bool,
) -> None:
    """Nobody waits for it to come back where it is known to be away: what the view has is told at once."""
    setup = Setup()
    setup.control.otherwise = ControlPlaneUnavailable("away")
    setup.control.cluster.is_current = not is_known
    known, unknown = (await setup.ask(12, (asked(12, "t"), asked(12, "n")))).topics
    assert (known.error_code, unknown.error_code) == (0, 3)
    assert len(setup.control.calls) == (0 if is_known else 1)


async def test_creation_without_a_control_plane_is_retriable() -> None:
    setup = Setup()
    setup.control.answers["create_topics"] = ControlPlaneUnavailable("away")
    (topic,) = (await setup.ask(9, (asked(9, "n"),), create=True)).topics
    assert topic.error_code == 5


def agents(count: int, zones: str = "") -> tuple[Agent, ...]:
    return tuple(
        Agent(node_id=i, host=f"h{i}", port=9, zone=zones[i % len(zones)] if zones else "")
        for i in range(1, count + 1)
    )


def test_placement_spreads_and_moves_only_what_it_must() -> None:
    keys = [placement.partition_key(TOPIC_ID, partition) for partition in range(3000)]
    before = {key: placement.place(key, (1, 2, 3)) for key in keys}
    assert min(list(before.values()).count(node) for node in (1, 2, 3)) > 850
    after = {key: placement.place(key, (1, 3)) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != 2)


async def test_a_hidden_agent_is_a_broker_and_leads_nothing() -> None:
    """A client that waits for it goes on trying, and finds out who took its place (ADR 18)."""
    setup = Setup()
    one, two = agents(2)
    hiding = ClusterDelta(
        version=1, has_agents=True, agents=[two], hidden_agents=[one], hidden_lease_ids=[7]
    )
    setup.control.cluster.apply(hiding)
    answer = await setup.ask(12, (asked(12, "t"),))
    assert [broker.node_id for broker in answer.brokers] == [1, 2]
    assert {each.leader_id for each in answer.topics[0].partitions} == {2}
    assert answer.controller_id == 2
    setup.control.cluster.apply(ClusterDelta(version=2, has_agents=True, agents=[two]))
    answer = await setup.ask(12, (asked(12, "t"),))
    assert [broker.node_id for broker in answer.brokers] == [2]


def test_placement_remembers_no_long_names() -> None:
    """Names of groups are the clients', and tens of thousands of places are remembered."""
    size = placement.remembered.cache_info().currsize
    nodes = (1, 2, 3, 4)
    longs = [b"group:" + b"%d" % number * 9000 for number in range(20)]
    assert {placement.place(key, nodes) for key in longs} <= set(nodes)
    assert placement.remembered.cache_info().currsize == size
    placement.place(b"group:test_placement_remembers", nodes)
    assert placement.remembered.cache_info().currsize == size + 1


def test_placement_keeps_to_our_zone() -> None:
    control = ScriptedControl()
    control.cluster.apply(snapshot(TOPIC, agents=agents(4, "ab")))
    near = make_context(control, AgentSettings(zone="a"))
    assert [agent.node_id for agent in placement.candidates(near)] == [2, 4]
    elsewhere = make_context(control, AgentSettings(zone="c"))
    assert len(placement.candidates(elsewhere)) == 4
