"""AddPartitionsToTxn over the wire: every version, and errors."""

from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead
from lacuna.controlplane.v1.transactions_pb2 import (
    PartitionsAddedToTxn,
)
from tests.agent.apis.scripted import Setup, fences
from tests.agent.harness import TOPIC_ID, snapshot
from tests.messages import nested


def codes_of(topics: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    ]


@pytest.mark.parametrize("version", range(4))
async def test_add_partitions_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(
        add_partitions_to_txn=Reply(partitions_added_to_txn=PartitionsAddedToTxn(error_code=code))
    )

    def fields(*topics: tuple[str, tuple[int, ...]]) -> dict[str, Any]:
        return {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 5,
            "v3_and_below_producer_epoch": 3,
            "v3_and_below_topics": tuple(
                nested(24, version, "AddPartitionsToTxnTopic", name=name, partitions=partitions)
                for name, partitions in topics
            ),
        }

    answer = await setup.ask(24, version, **fields(("t", (0, 1))))
    fenced = fences(2, version)
    assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, fenced), ("t", 1, fenced)]
    (command,) = setup.commands("add_partitions_to_txn")
    assert [(each.topic_id, each.partition) for each in command.partitions] == [
        (TOPIC_ID, 0),
        (TOPIC_ID, 1),
    ]
    answer = await setup.ask(24, version, **fields(("t", (0, 9)), ("nope", (0,))))
    assert codes_of(answer.results_by_topic_v3_and_below) == [
        ("t", 0, 55),
        ("t", 9, 3),
        ("nope", 0, 3),
    ]
    assert len(setup.commands("add_partitions_to_txn")) == 1


async def test_a_partition_that_another_agent_has_just_made_is_added() -> None:
    """librdkafka gives up a transaction if one of its new partitions is unknown."""
    setup = Setup(add_partitions_to_txn=Reply(partitions_added_to_txn=PartitionsAddedToTxn()))

    def come(_: Command) -> Reply:
        topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)
        setup.control.cluster.apply(snapshot(topic))
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = come
    topic = nested(24, 3, "AddPartitionsToTxnTopic", name="t", partitions=(0, 2))
    for _ in range(2):
        answer = await setup.ask(
            24,
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=5,
            v3_and_below_producer_epoch=3,
            v3_and_below_topics=(topic,),
        )
        assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, 0), ("t", 2, 0)]
    assert len(setup.commands("read_partitions")) == 1


@pytest.mark.parametrize("version", [4, 5])
async def test_add_partitions_to_txn_in_batches(version: int) -> None:
    """Each transaction fails independently."""

    def decide(command: Command) -> Reply:
        asked = command.add_partitions_to_txn
        codes = [120 if asked.verify_only else 0] * len(asked.partitions)
        return Reply(partitions_added_to_txn=PartitionsAddedToTxn(error_codes=codes))

    setup = Setup(add_partitions_to_txn=decide)
    topics = (nested(24, version, "AddPartitionsToTxnTopic", name="t", partitions=(1,)),)
    transactions = tuple(
        nested(
            24,
            version,
            "AddPartitionsToTxnTransaction",
            transactional_id=name,
            producer_id=5,
            producer_epoch=0,
            verify_only=name == "v",
            topics=topics,
        )
        for name in ("a", "v")
    )
    answer = await setup.ask(24, version, transactions=transactions)
    found = {
        each.transactional_id: codes_of(each.topic_results)
        for each in answer.results_by_transaction
    }
    assert found == {"a": [("t", 1, 0)], "v": [("t", 1, 120)]}
