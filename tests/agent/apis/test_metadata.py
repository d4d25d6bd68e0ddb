"""Metadata and DescribeTopicPartitions over the wire."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lacuna.agent.admin import operations
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlPlaneUnavailable, InProcessClient
from lacuna.controlplane.v1.cluster_pb2 import Agent, ClusterDelta, Topic, TopicResult, TopicResults
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import topics as wire
from lacuna.wire.messages.cluster import ApiVersionsRequest
from tests.agent.apis.clusters import Setup, topic
from tests.agent.harness import (
    TOPIC,
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    agents,
    client_of,
    encode_request,
    make_context,
    make_server,
    read_answer,
    snapshot,
)


async def test_two_agents_share_the_work_and_one_takes_it_all(setup: Setup) -> None:
    """Both agents return the same Metadata. An agent that stops cleanly disappears immediately."""
    await setup.create_topics(topic("t", 64))
    control = InProcessClient(setup.running.runtime)
    context = make_context(control, AgentSettings(zone="a"))
    second = make_server(context)
    await second.start()
    await context.lease.start(second.port)
    other = await RawClient.connect(second.port)

    async def leaders(client: RawClient) -> list[int]:
        answer = await client.call(9, wire.MetadataRequest([asked("t")], False))
        return [each.leader_id for each in answer.topics[0].partitions]

    first, nodes = await leaders(setup.client), {1, 2}
    assert first == await leaders(other)
    assert set(first) == nodes
    assert 16 < first.count(1) < 48
    await other.close()
    await context.lease.stop_renewing()
    await second.stop()
    await context.lease.release(1.0)
    await control.close()
    assert set(await leaders(setup.client)) == {setup.running.context.lease.node_id}


NOT_ASKED = -(2**31)


def asked(name: str | None, topic_id: bytes = ZERO_UUID) -> wire.MetadataRequestTopic:
    return wire.MetadataRequestTopic(topic_id, name)


class Scripted:
    def __init__(self, settings: AgentSettings | None = None) -> None:
        self.control = ScriptedControl()
        self.control.cluster.apply(snapshot(TOPIC))
        self.context = make_context(self.control, settings)

    async def ask(
        self,
        version: int,
        topics: Sequence[wire.MetadataRequestTopic] | None,
        *,
        create: bool = False,
    ) -> Any:
        async with client_of(self.context) as client:
            return await client.call(version, wire.MetadataRequest(topics, create))


@pytest.mark.parametrize("version", range(14))
async def test_a_known_topic_at_every_version(version: int) -> None:
    """S6: the leader epoch is 0, and the leader is the only replica."""
    answer = await Scripted().ask(version, (asked("t"),))
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "t", 3)
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.error_code, partition.leader_id) == (
            index,
            0,
            1,
        )
        assert partition.replica_nodes == partition.isr_nodes == (1,)
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert topic.topic_authorized_operations == NOT_ASKED
    if version >= 10:
        assert topic.topic_id == TOPIC_ID


@pytest.mark.parametrize("version", [8, 13])
async def test_operations_are_told_of_names_that_are_no_topics_too(version: int) -> None:
    topics = [asked(name) for name in ("t", "no", "/")]
    topics += [asked(None, b"n" * 16)] * (version >= 12)
    request = wire.MetadataRequest(topics, False, include_topic_authorized_operations=True)
    async with client_of(Scripted().context) as client:
        answer = await client.call(version, request)
    told = [topic.topic_authorized_operations for topic in answer.topics]
    assert told[:3] == [operations.TOPIC] * 3
    assert set(told[3:]) <= {NOT_ASKED}


async def test_s7_who_slept_past_the_lease_asks_before_it_names_leaders() -> None:
    setup = Scripted()
    moved = ClusterDelta(version=2, has_agents=True, agents=[Agent(node_id=2, host="b", port=1)])

    def catch_up(command: Command) -> Reply:
        setup.control.cluster.apply(moved)
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = catch_up
    setup.context.lease.trust.lasts = 9.0  # and it was never renewed
    answer = await setup.ask(12, (asked("t"),))
    assert {partition.leader_id for partition in answer.topics[0].partitions} == {2}
    await setup.ask(12, (asked("t"),))
    assert len(setup.control.calls) == 1


@pytest.mark.parametrize(
    ("version", "topics", "count"),
    [(0, (), 1), (1, (), 0), (1, None, 1), (13, (), 0), (13, None, 1)],
)
async def test_null_is_all_and_empty_is_none(
    version: int, topics: tuple[()] | None, count: int
) -> None:
    """v0 has no null; there, an empty list means all."""
    assert len((await Scripted().ask(version, topics)).topics) == count


@pytest.mark.parametrize(
    ("name", "topic_id", "error"),
    [
        (None, TOPIC_ID, 0),
        (None, b"x" * 16, 100),
        ("nope", ZERO_UUID, 3),
        ("a/b", ZERO_UUID, 17),
        ("", ZERO_UUID, 17),
        (".", ZERO_UUID, 17),
        ("x" * 250, ZERO_UUID, 17),
        ("__share_group_state", ZERO_UUID, 17),
    ],
)
async def test_errors_of_names_and_ids(name: str | None, topic_id: bytes, error: int) -> None:
    (topic,) = (await Scripted().ask(12, (asked(name, topic_id),))).topics
    assert topic.error_code == error
    assert len(topic.partitions) == (0 if error else 3)
    assert topic.name == ("t" if error == 0 else name)


def created(control: ScriptedControl) -> Callable[[Command], Reply]:
    def answer(command: Command) -> Reply:
        made = command.create_topics.topics
        topics = [
            Topic(
                topic_id=each.name.encode() * 16,
                name=each.name,
                partition_count=each.partition_count,
            )
            for each in made
        ]
        control.cluster.apply(ClusterDelta(version=2, topics=topics))
        results = [TopicResult(name=each.name) for each in made]
        return Reply(topics_created=TopicResults(topics=results))

    return answer


async def test_unknown_topics_are_created_when_all_agree() -> None:
    setup = Scripted(AgentSettings(num_partitions=4))
    setup.control.answers["create_topics"] = created(setup.control)
    asked_for = ("n", "t", "a/b", "__consumer_offsets", "__share_group_state", "n")
    names = tuple(asked(name) for name in asked_for)
    answer = await setup.ask(12, names, create=True)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        ("n", 0, 4),
        ("t", 0, 3),
        ("a/b", 17, 0),
        ("__consumer_offsets", 0, 50),
        ("__share_group_state", 17, 0),
    ]
    (command,) = setup.control.calls
    assert [each.name for each in command.create_topics.topics] == ["n"]


async def test_creation_is_off_by_request_or_by_setting() -> None:
    for setup, create in (
        (Scripted(), False),
        (Scripted(AgentSettings(auto_create_topics=False)), True),
    ):
        (topic,) = (await setup.ask(9, (asked("n"),), create=create)).topics
        assert topic.error_code == 3
        assert not any(each.HasField("create_topics") for each in setup.control.calls)


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_topic_that_another_agent_has_just_made_is_there(by_id: bool) -> None:
    """A tool creates the topic through one agent, and a consumer that may not create topics uses another."""
    setup, new_id = Scripted(), TOPIC_ID[::-1]

    def come(_: Command) -> Reply:
        new = Topic(topic_id=new_id, name="n", partition_count=1)
        setup.control.cluster.apply(snapshot(TOPIC, new))
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = come
    named = asked(None, new_id) if by_id else asked("n")
    for _ in range(2):
        (topic,) = (await setup.ask(12, (named,))).topics
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "n", 1)
    assert len(setup.control.calls) == 1


@pytest.mark.parametrize("is_known", [False, True])
async def test_an_unknown_topic_is_told_from_the_view_without_a_control_plane(
    is_known: bool,
) -> None:
    """While the control plane is known to be unavailable, the answer comes from the view without waiting."""
    setup = Scripted()
    setup.control.otherwise = ControlPlaneUnavailable("away")
    setup.control.cluster.is_current = not is_known
    known, unknown = (await setup.ask(12, (asked("t"), asked("n")))).topics
    assert (known.error_code, unknown.error_code) == (0, 3)
    assert len(setup.control.calls) == (0 if is_known else 1)


async def test_creation_without_a_control_plane_is_retriable() -> None:
    setup = Scripted()
    setup.control.answers["create_topics"] = ControlPlaneUnavailable("away")
    (topic,) = (await setup.ask(9, (asked("n"),), create=True)).topics
    assert topic.error_code == 5


async def brokers_for(
    setup: Scripted, software: tuple[str, str], request: wire.MetadataRequest
) -> list[int]:
    """Return the node ids in the answer to a client with that name and version."""
    async with client_of(setup.context) as client:
        await client.call(3, ApiVersionsRequest(*software))
        answer = await client.call(12, request)
        return [broker.node_id for broker in answer.brokers]


LIBRDKAFKA = ("librdkafka", "2.16.1")


@pytest.mark.parametrize(
    ("software", "topics", "creates", "is_told"),
    [
        (LIBRDKAFKA, (asked("t"),), True, True),
        (("confluent-kafka-python", "2.16.1-librdkafka-2.16.1"), (asked("t"),), True, True),
        (("confluent-kafka-dotnet", "2.11.0"), (asked("t"),), True, True),
        (LIBRDKAFKA, (), False, False),
        (LIBRDKAFKA, None, False, False),
        (LIBRDKAFKA, (asked("t"),), False, False),
        (("apache-kafka-java", "4.1.1"), (asked("t"),), True, False),
        (("apache-kafka-java", "4.1.1"), (), True, False),
        (("kafka-python", "3.0.12"), None, True, False),
    ],
)
async def test_only_producers_of_librdkafka_are_told_of_agents_that_have_gone(
    software: tuple[str, str], topics: Any, creates: bool, is_told: bool
) -> None:
    """A producer that waits for a departed agent keeps retrying and finds its successor (ADR 58)."""
    setup = Scripted()
    one, two = agents(2)
    hiding = ClusterDelta(
        version=1, has_agents=True, agents=[two], hidden_agents=[one], hidden_lease_ids=[7]
    )
    setup.control.cluster.apply(hiding)
    request = wire.MetadataRequest(topics, creates)
    assert await brokers_for(setup, software, request) == ([1, 2] if is_told else [2])
    setup.control.cluster.apply(ClusterDelta(version=2, has_agents=True, agents=[two]))
    assert await brokers_for(setup, software, request) == [2]


async def test_a_hidden_agent_leads_nothing_and_is_a_broker_while_it_leaves() -> None:
    """It still answers requests that it has read, and some clients disconnect from a node that is not a broker."""
    setup = Scripted()
    one, two = agents(2)
    for leaving, expected in (([1], [1, 2]), ([], [2])):
        hiding = ClusterDelta(
            version=1,
            has_agents=True,
            agents=[two],
            hidden_agents=[one],
            hidden_lease_ids=[7],
            leaving_node_ids=leaving,
        )
        setup.control.cluster.apply(hiding)
        answer = await setup.ask(12, (asked("t"),))
        assert [broker.node_id for broker in answer.brokers] == expected
        assert {each.leader_id for each in answer.topics[0].partitions} == {2}
        assert answer.controller_id == 2


@pytest.mark.parametrize("has_cursor", [False, True])
async def test_tagged_fields_that_are_not_known_are_skipped(setup: Setup, has_cursor: bool) -> None:
    """KIP-482: also inside and after the cursor, which may be null."""
    await setup.create("t", 3)
    unknown = b"\x01\x07\x02hi"
    cursor = b"\x01" + b"\x02t" + struct.pack(">i", 1) + unknown if has_cursor else b"\xff"
    body = b"\x02" + b"\x02t" + unknown + struct.pack(">i", 9) + cursor + unknown
    setup.client.send(encode_request(75, 0, body))
    frame = await setup.client.frame()
    answer = read_answer(frame, 75, 0)
    (topic,) = answer.topics
    found = [each.partition_index for each in topic.partitions]
    assert found == ([1, 2] if has_cursor else [0, 1, 2])


async def test_topic_partitions_end_at_two_thousand(setup: Setup) -> None:
    """KIP-966: every answer is bounded, and a cursor leads to the rest."""
    for name in ("a", "b", "c"):
        await setup.create(name, 900)
    cursor, seen, answers = None, [], 0
    while True:
        request = wire.DescribeTopicPartitionsRequest((), 2**31 - 1, cursor)
        answer = await setup.client.call(0, request)
        answers += 1
        seen += [(each.name, p.partition_index) for each in answer.topics for p in each.partitions]
        assert all(each.topic_id != ZERO_UUID for each in answer.topics)
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [(name, index) for name in "abc" for index in range(900)]
    assert answers == 2


async def test_all_topic_partitions_go_on_where_the_topic_of_the_cursor_is_gone(
    setup: Setup,
) -> None:
    """As in Kafka, where a request for all topics never returns an error for a missing one."""
    for name in ("a", "c"):
        await setup.create(name, 2)

    async def ask(cursor: tuple[str, int] | None, limit: int) -> tuple[list[Any], Any]:
        at = cursor and wire.Cursor(*cursor)
        request = wire.DescribeTopicPartitionsRequest((), limit, at)
        answer = await setup.client.call(0, request)
        return [(each.name, len(each.partitions)) for each in answer.topics], answer.next_cursor

    assert await ask(("b", 1), 9) == ([("c", 2)], None)
    assert await ask(("d", 0), 9) == ([], None)
    assert await ask(None, 2) == ([("a", 2)], ("c", 0))
