"""CreateTopics over the wire: every version, and errors."""

from typing import Any

import pytest

from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.wire.layout import ZERO_UUID
from tests.agent.apis.clusters import SECOND, Setup, topic
from tests.messages import nested


@pytest.mark.parametrize("version", range(2, 8))
async def test_create_topics_at_every_version(setup: Setup, version: int) -> None:
    """Counts and configs from v5 on (KIP-525), and topic ids from v7 on (KIP-516)."""
    made = topic("t", -1, 7, version=version, configs={"retention.ms": " 01000 "})
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
    assignments = tuple(
        nested(19, 7, "CreatableReplicaAssignment", partition_index=index, broker_ids=each)
        for index, each in enumerate(brokers)
    )
    made = nested(
        19,
        7,
        "CreatableTopic",
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=(),
    )
    (found,) = await setup.create_topics(made)
    assert found.error_code == (39 if said else 0)
    assert said in (found.error_message or "")
    await setup.create_topics(topic("u", 2))
    more = tuple(nested(37, 3, "CreatePartitionsAssignment", broker_ids=each) for each in brokers)
    growth = nested(37, 3, "CreatePartitionsTopic", name="u", count_=4, assignments=more)
    answer = await setup.ask(37, 3, topics=(growth,), timeout_ms=SECOND, validate_only=False)
    (grown,) = answer.results
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


async def test_many_topics_are_created_by_several_commands(setup: Setup) -> None:
    """A clash between two of them is still found, and too many partitions create no topic."""
    names = ["a.b", *(f"t{number}" for number in range(MOST_OF_PIECE)), "a_b"]
    found = await setup.create_topics(*(topic(name, 1) for name in names))
    assert [each.error_code for each in found] == [0] * (MOST_OF_PIECE + 1) + [17]
    too_many = [topic(f"u{number}", 20) for number in range(MOST_OF_PIECE + 1)]
    assert {each.error_code for each in await setup.create_topics(*too_many)} == {44}
