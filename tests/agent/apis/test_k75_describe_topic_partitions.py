"""DescribeTopicPartitions over the wire: every version, and errors."""

import struct
from typing import Any

import pytest

from lacuna.wire.layout import ZERO_UUID
from tests.agent.apis.clusters import Setup
from tests.agent.harness import encode_request, read_answer
from tests.messages import nested


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
    """KIP-966: every answer is bounded, and a cursor leads to the end."""
    for name in ("a", "b", "c"):
        await setup.create(name, 900)
    cursor, seen, answers = None, [], 0
    while True:
        answer = await setup.ask(
            75, 0, topics=(), response_partition_limit=2**31 - 1, cursor=cursor
        )
        answers += 1
        seen += [(each.name, p.partition_index) for each in answer.topics for p in each.partitions]
        assert all(each.topic_id != ZERO_UUID for each in answer.topics)
        if answer.next_cursor is None:
            break
        at = answer.next_cursor
        cursor = nested(
            75, 0, "Cursor", topic_name=at.topic_name, partition_index=at.partition_index
        )
    assert seen == [(name, index) for name in "abc" for index in range(900)]
    assert answers == 2


async def test_all_topic_partitions_go_on_where_the_topic_of_the_cursor_is_gone(
    setup: Setup,
) -> None:
    """As in Kafka. A request without topics has no place for an error either."""
    for name in ("a", "c"):
        await setup.create(name, 2)

    async def ask(cursor: tuple[str, int] | None, limit: int) -> tuple[list[Any], Any]:
        at = cursor and nested(75, 0, "Cursor", topic_name=cursor[0], partition_index=cursor[1])
        answer = await setup.ask(75, 0, topics=(), response_partition_limit=limit, cursor=at)
        rows = [(each.name, len(each.partitions)) for each in answer.topics]
        left = answer.next_cursor
        return rows, left and (left.topic_name, left.partition_index)

    assert await ask(("b", 1), 9) == ([("c", 2)], None)
    assert await ask(("d", 0), 9) == ([], None)
    assert await ask(None, 2) == ([("a", 2)], ("c", 0))
