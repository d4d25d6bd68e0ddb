"""CreateTopics, DeleteTopics, DeleteRecords and CreatePartitions at every version, and their errors."""

from typing import Any

import pytest

from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, CreatePartitionsTopic, DeleteTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import topics as wire
from tests.agent.apis.clusters import SECOND, Setup, topic
from tests.agent.plane import create_topic, hold_deltas


async def deleted(setup: Setup, *states: wire.DeleteTopicState) -> Any:
    return (await setup.client.call(6, wire.DeleteTopicsRequest(states, (), SECOND))).responses


async def delete_by_name(setup: Setup, version: int, *names: str) -> Any:
    states = [wire.DeleteTopicState(name) for name in names]
    asked = wire.DeleteTopicsRequest(states, names, SECOND)
    return (await setup.client.call(version, asked)).responses


async def delete_records(
    setup: Setup, version: int, rows: dict[str, list[tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Delete records before each (partition, offset), and return each partition's error and low watermark."""
    topics = [
        wire.DeleteRecordsTopic(name, [wire.DeleteRecordsPartition(*each) for each in pairs])
        for name, pairs in rows.items()
    ]
    answer = await setup.client.call(version, wire.DeleteRecordsRequest(topics, SECOND))
    return [(p.error_code, p.low_watermark) for t in answer.topics for p in t.partitions]


def growth(name: str, count: int, *brokers: tuple[int, ...]) -> wire.CreatePartitionsTopic:
    assignments = [wire.CreatePartitionsAssignment(each) for each in brokers]
    return wire.CreatePartitionsTopic(name, count, assignments or None)


async def grow(
    setup: Setup, *topics: wire.CreatePartitionsTopic, version: int = 3, check: bool = False
) -> Any:
    asked = wire.CreatePartitionsRequest(topics, SECOND, check)
    return (await setup.client.call(version, asked)).results


@pytest.mark.parametrize("version", range(2, 8))
async def test_create_topics_at_every_version(setup: Setup, version: int) -> None:
    """Counts and configs are returned from v5 on (KIP-525), and topic ids from v7 on (KIP-516)."""
    made = topic("t", -1, 7, configs={"retention.ms": " 01000 "})
    (found,) = await setup.create_topics(made, version=version)
    assert found.error_code == 0
    if version >= 5:
        assert (found.num_partitions, found.replication_factor) == (3, 1)
        configs = {each.name: (each.value, each.config_source) for each in found.configs}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["max.message.bytes"] == ("1048588", 5)
    if version >= 7:
        known = setup.running.control.cluster.topics_by_name["t"]
        assert found.topic_id == known.topic_id


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("t", 1, 0), 38),
        (topic("t", 1, -2), 38),
        (topic("t", 0), 37),
        (topic("t", -2), 37),
        (topic("a/b"), 17),
        (topic("t", configs={"retention.ms": None}), 40),
        (topic("t", configs={"no.such": "1"}), 40),
        (topic("t", configs={"retention.ms": "many"}), 40),
        (topic("t", 2, -1, assigned=(0, 1)), 42),
        (topic("t", -1, 1, assigned=(0, 1)), 42),
        (topic("t", -1, -1, assigned=(0, 2)), 39),
        (topic("t", -1, -1, assigned=(0, 0)), 39),
        (topic("t", -1, -1, assigned=(1, 0)), 0),
    ],
)
async def test_what_create_topics_refuses(setup: Setup, wanted: Any, code: int) -> None:
    (found,) = await setup.create_topics(wanted)
    assert found.error_code == code
    assert (found.error_message is None) == (code == 0)
    if code == 0:
        assert found.num_partitions == 2


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (((1,), (2,)), ""),
        (((1, 2), (2, 1)), ""),
        (((1,), ()), "an empty replica list"),
        (((1, 2, 1), (1, 2, 3)), "the broker 1 more than once"),
        (((1, 2), (3,)), "a partition with 1 replica(s)"),
    ],
)
async def test_an_assignment_names_as_many_different_brokers_for_each_partition(
    setup: Setup, brokers: tuple[tuple[int, ...], ...], said: str
) -> None:
    """As in Kafka, for topics that are created and for those that grow. The brokers need not exist."""
    assignments = [wire.CreatableReplicaAssignment(*each) for each in enumerate(brokers)]
    made = wire.CreatableTopic("t", -1, -1, assignments)
    (found,) = await setup.create_topics(made)
    assert found.error_code == (39 if said else 0)
    assert said in (found.error_message or "")
    await setup.create_topics(topic("u", 2))
    (grown,) = await grow(setup, growth("u", 4, *brokers))
    assert grown.error_code == (39 if said else 0)
    assert said in (grown.error_message or "")
    known = setup.running.control.cluster.topics_by_name
    assert ("t" in known, known["u"].partition_count) == (not said, 2 if said else 4)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (topic("t", 0), "Number of partitions was set to an invalid non-positive value."),
        (
            topic("t", 1, 0),
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic("t", configs={"retention.ms": None, "segment.ms": None}),
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            topic("t", -1, -1, assigned=(0, 2)),
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
async def test_create_topics_refuses_in_kafkas_words(setup: Setup, wanted: Any, said: str) -> None:
    (found,) = await setup.create_topics(wanted)
    assert found.error_message == said


async def test_topics_fail_alone_and_twice_is_not_at_all(setup: Setup) -> None:
    found = await setup.create_topics(topic("a"), topic("x/y"), topic("b"), topic("b"))
    assert [(each.name, each.error_code) for each in found] == [("a", 0), ("x/y", 17), ("b", 42)]
    assert set(setup.running.control.cluster.topics_by_name) == {"a"}


async def test_validate_only_changes_nothing(setup: Setup) -> None:
    (found,) = await setup.create_topics(topic("t", 4), check=True)
    assert (found.error_code, found.num_partitions, found.topic_id) == (0, 4, ZERO_UUID)
    assert not setup.running.control.cluster.topics_by_name


@pytest.mark.slow
async def test_many_topics_are_created_by_several_commands(setup: Setup) -> None:
    """A conflict between two of them is still detected, and if there are too many partitions, no topic is created."""
    names = ["a.b", *(f"t{number}" for number in range(MOST_OF_PIECE)), "a_b"]
    found = await setup.create_topics(*(topic(name, 1) for name in names))
    assert [each.error_code for each in found] == [0] * (MOST_OF_PIECE + 1) + [17]
    too_many = [topic(f"u{number}", 20) for number in range(MOST_OF_PIECE + 1)]
    assert {each.error_code for each in await setup.create_topics(*too_many)} == {44}


@pytest.mark.parametrize("version", range(1, 6))
async def test_delete_topics_by_name(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t"), topic("u"))
    found = await delete_by_name(setup, version, "t", "nope", "u", "u")
    assert [(each.name, each.error_code) for each in found] == [
        ("t", 0),
        ("nope", 3),
        ("u", 42),
        ("u", 42),
    ]
    if version >= 5:
        words = [each.error_message for each in found]
        once = "Specify each topic only once, by either its name or its id."
        assert words == [None, "This server does not host this topic-partition.", once, once]
    assert set(setup.running.control.cluster.topics_by_name) == {"u"}


async def test_delete_topics_by_id(setup: Setup) -> None:
    """KIP-516, S6: a recreated topic with the same name is a different topic."""
    (made,) = await setup.create_topics(topic("t"))

    async def delete(name: str | None, topic_id: bytes = ZERO_UUID) -> tuple[str | None, int]:
        (found,) = await deleted(setup, wire.DeleteTopicState(name, topic_id))
        return found.name, found.error_code

    assert await delete(None, bytes(15) + b"c") == (None, 100)
    assert await delete("t", made.topic_id) == ("t", 42)
    assert await delete(None) == (None, 42)
    assert await delete(None, made.topic_id) == ("t", 0)
    await setup.create_topics(topic("t"))
    assert await delete(None, made.topic_id) == (None, 100)
    assert await delete("t") == ("t", 0)


@pytest.mark.parametrize("version", range(1, 7))
async def test_s6_delete_topics_that_another_agent_has_just_made_anew_or_deleted(
    setup: Setup, version: int
) -> None:
    """A name refers to its current topic, as in another agent's answer, and answers by name have no ids."""
    elsewhere = InProcessClient(setup.running.runtime)

    async def drop(topic_id: bytes) -> None:
        await elsewhere.call(Command(delete_topics=DeleteTopics(topic_ids=[topic_id])))

    old, gone = await create_topic(elsewhere, "again"), await create_topic(elsewhere, "gone")
    hold_deltas(setup.running.control)
    await drop(old)
    await drop(gone)
    await create_topic(elsewhere, "again")
    found = await delete_by_name(setup, version, "again", "gone")
    assert [(each.name, each.error_code) for each in found] == [("again", 0), ("gone", 3)]
    assert not elsewhere.cluster.topics_by_name

    await create_topic(elsewhere, "new")
    found = await delete_by_name(setup, version, "new")
    assert [(each.name, each.error_code) for each in found] == [("new", 0)]
    if version >= 6:
        made = await create_topic(elsewhere, "by-id")
        (by_id,) = await deleted(setup, wire.DeleteTopicState(None, made))
        assert (by_id.name, by_id.topic_id, by_id.error_code) == ("by-id", made, 0)
    await elsewhere.close()


@pytest.mark.parametrize("version", range(3))
async def test_delete_records_of_what_is_not_there(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t", 2))
    rows = {"t": [(0, 0), (5, 0), (1, 9)], "nope": [(0, -1)]}
    found = await delete_records(setup, version, rows)
    assert found == [(0, 0), (3, -1), (1, -1), (3, -1)]


async def test_of_a_partition_that_is_named_twice_the_last_offset_counts(setup: Setup) -> None:
    """As in Kafka. The answer lists it once."""
    await setup.create_topics(topic("t"))
    found = await delete_records(setup, 2, {"t": [(0, 9), (0, 0)]})
    assert found == [(0, 0)]


async def test_assignments_are_held_against_what_another_agent_has_just_grown(setup: Setup) -> None:
    await setup.create_topics(topic("t", 1))
    elsewhere = InProcessClient(setup.running.runtime)
    hold_deltas(setup.running.control)
    larger = CreatePartitions(topics=[CreatePartitionsTopic(name="t", partition_count=3)])
    await elsewhere.call(Command(create_partitions=larger))
    results = await grow(setup, growth("t", 4, (1,)))
    assert [(each.name, each.error_code) for each in results] == [("t", 0)]
    assert elsewhere.cluster.topics_by_name["t"].partition_count == 4
    await elsewhere.close()


@pytest.mark.parametrize("version", range(4))
async def test_create_partitions(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t", 2), topic("u", 2))

    async def codes(*pairs: tuple[str, int], check: bool = False) -> list[tuple[str, int]]:
        results = await grow(
            setup, *(growth(*each) for each in pairs), version=version, check=check
        )
        return [(each.name, each.error_code) for each in results]

    assert await codes(("t", 2), ("nope", 3), ("u", 5), ("u", 6)) == [
        ("t", 37),
        ("nope", 3),
        ("u", 42),
    ]
    for assigned, code in ((1, 39), (3, 39), (2, 0)):
        more = growth("t", 4, *[(1,)] * assigned)
        (found,) = await grow(setup, more, version=version, check=True)
        assert found.error_code == code
    assert await codes(("t", 3), check=True) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 2
    assert await codes(("t", 3)) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 3
