"""DeleteTopics over the wire: every version, and errors."""

from typing import Any

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    DeleteTopics,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.layout import ZERO_UUID
from tests.agent.apis.clusters import SECOND, Setup, topic
from tests.agent.plane import hold_deltas
from tests.messages import nested


@pytest.mark.parametrize("version", range(1, 6))
async def test_delete_topics_by_name(setup: Setup, version: int) -> None:
    await setup.create_topics(topic("t"), topic("u"))
    answer = await setup.ask(20, version, topic_names=("t", "nope", "u", "u"), timeout_ms=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("t", 0),
        ("nope", 3),
        ("u", 42),
        ("u", 42),
    ]
    if version >= 5:
        words = [each.error_message for each in answer.responses]
        once = "Name each topic only once, either by its name or by its id."
        assert words == [None, "This server does not host this topic-partition.", once, once]
    assert set(setup.running.control.cluster.topics_by_name) == {"u"}


async def test_delete_topics_by_id(setup: Setup) -> None:
    """KIP-516, S6: a recreated topic with the same name is a different topic."""
    (made,) = await setup.create_topics(topic("t"))

    async def delete(name: str | None, topic_id: bytes = ZERO_UUID) -> tuple[str | None, int]:
        asked = nested(20, 6, "DeleteTopicState", name=name, topic_id=topic_id)
        (found,) = (await setup.ask(20, 6, topics=(asked,), timeout_ms=SECOND)).responses
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
    """An answer from another agent is valid here: a name stands for its current topic, and answers by name
    have no ids.
    """
    elsewhere = InProcessClient(setup.running.plane)

    async def make(name: str) -> bytes:
        wanted = CreateTopics(topics=[CreateTopic(name=name, partition_count=1)])
        made = (await elsewhere.call(Command(create_topics=wanted))).topics_created.topics[0]
        assert made.error_code == 0
        return made.topic_id

    async def drop(topic_id: bytes) -> None:
        await elsewhere.call(Command(delete_topics=DeleteTopics(topic_ids=[topic_id])))

    old, gone = await make("again"), await make("gone")
    hold_deltas(setup.running.control)
    await drop(old)
    await drop(gone)
    await make("again")
    fields: dict[str, Any] = {"topic_names": ("again", "gone")}
    if version >= 6:
        names = [nested(20, 6, "DeleteTopicState", name=name) for name in ("again", "gone")]
        fields = {"topics": tuple(names)}
    answer = await setup.ask(20, version, **fields, timeout_ms=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("again", 0),
        ("gone", 3),
    ]
    assert not elsewhere.cluster.topics_by_name

    await make("new")
    fields = {"topic_names": ("new",)}
    if version >= 6:
        fields = {"topics": (nested(20, 6, "DeleteTopicState", name="new"),)}
    answer = await setup.ask(20, version, **fields, timeout_ms=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [("new", 0)]
    if version >= 6:
        made = await make("by-id")
        asked = nested(20, 6, "DeleteTopicState", name=None, topic_id=made)
        (found,) = (await setup.ask(20, 6, topics=(asked,), timeout_ms=SECOND)).responses
        assert (found.name, found.topic_id, found.error_code) == ("by-id", made, 0)
    await elsewhere.close()
