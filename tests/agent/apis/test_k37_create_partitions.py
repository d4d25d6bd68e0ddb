"""CreatePartitions over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
)
from lacuna.controlplane.v1.control_pb2 import Command
from tests.agent.apis.clusters import SECOND, Setup, topic
from tests.agent.plane import hold_deltas
from tests.messages import nested


async def test_assignments_are_held_against_what_another_agent_has_just_grown(setup: Setup) -> None:
    await setup.create_topics(topic("t", 1))
    elsewhere = InProcessClient(setup.running.plane)
    hold_deltas(setup.running.control)
    larger = CreatePartitions(topics=[CreatePartitionsTopic(name="t", partition_count=3)])
    await elsewhere.call(Command(create_partitions=larger))
    assignment = nested(37, 3, "CreatePartitionsAssignment", broker_ids=(1,))
    asked = nested(37, 3, "CreatePartitionsTopic", name="t", count_=4, assignments=(assignment,))
    answer = await setup.ask(37, 3, topics=(asked,), timeout_ms=SECOND, validate_only=False)
    assert [(each.name, each.error_code) for each in answer.results] == [("t", 0)]
    assert elsewhere.cluster.topics_by_name["t"].partition_count == 4
    await elsewhere.close()


@pytest.mark.parametrize("version", range(4))
async def test_create_partitions(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t", 2), topic("u", 2))

    async def grow(*pairs: tuple[str, int], check: bool = False) -> list[tuple[str, int]]:
        topics = tuple(
            nested(37, version, "CreatePartitionsTopic", name=name, count_=count, assignments=None)
            for name, count in pairs
        )
        answer = await setup.ask(37, version, topics=topics, timeout_ms=SECOND, validate_only=check)
        return [(each.name, each.error_code) for each in answer.results]

    assert await grow(("t", 2), ("nope", 3), ("u", 5), ("u", 6)) == [
        ("t", 37),
        ("nope", 3),
        ("u", 42),
    ]
    for assigned, code in ((1, 39), (3, 39), (2, 0)):
        assignment = nested(37, version, "CreatePartitionsAssignment", broker_ids=(1,))
        growth = nested(
            37,
            version,
            "CreatePartitionsTopic",
            name="t",
            count_=4,
            assignments=(assignment,) * assigned,
        )
        answer = await setup.ask(
            37, version, topics=(growth,), timeout_ms=SECOND, validate_only=True
        )
        assert [each.error_code for each in answer.results] == [code]
    assert await grow(("t", 3), check=True) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 2
    assert await grow(("t", 3)) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 3
