"""Members of KIP-848 groups whose coordinator loses its control plane (S26, adr/0034)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.probing import Target
from tests.clients.wire import Fields
from tests.simulation.stage import Delayed, Later, Stage, staged

#: Simulated seconds: an agent waits less than the second value for a control plane before it answers on its own.
SHORT, LONG = 0.5, 4.0


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=1)


class Member:
    """Sends heartbeats, which are plain after the first, like a client that gets no error."""

    def __init__(
        self, target: Target, topic: str, version: int = 1, instance_id: str | None = None
    ) -> None:
        self._target = target
        self._version = version
        self._always = {"group_id": "g", "instance_id": instance_id}
        self._member_id = target.name("member") if version else ""
        self._fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        self.epoch = 0
        self.assigned: set[int] = set()

    def beat(self) -> None:
        self.take(self._ask(self._target))

    def beat_later(self) -> Later[Fields]:
        return self._target.later(self._ask)  # type: ignore[attr-defined, no-any-return]

    def take(self, answer: Fields) -> None:
        assert answer["error_code"] == 0, answer
        self._fields = {}
        self._member_id = answer["member_id"]
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            rows = answer["assignment"]["topic_partitions"]
            self.assigned = {each for row in rows for each in row["partitions"]}

    def _ask(self, target: Target) -> Fields:
        return target.call(
            "consumer_group_heartbeat",
            self._version,
            **self._always,
            member_id=self._member_id,
            member_epoch=self.epoch,
            **self._fields,
        )


def beat_through_an_outage(stage: Stage, member: Member, seconds: float) -> None:
    """Send one heartbeat that is journalled but whose reply is lost with the control plane."""
    delayed = Delayed(stage, stage.agents[0])
    sent = member.beat_later()
    delayed.wait_for_reply()
    stage.control.kill(back_after=seconds)
    delayed.release()
    member.take(sent.result())
    stage.advance(seconds)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_member_joins_once_whatever_is_lost(
    stage: Stage, version: int, instance_id: str | None
) -> None:
    """Before v1, the client does not choose its id, and no other client can join under an instance id."""
    one = stage.agents[0].target()
    member = Member(one, one.topic(partitions=2), version, instance_id)
    beat_through_an_outage(stage, member, SHORT)
    assert (member.epoch, member.assigned) == (2, {0, 1})
    member.beat()
    assert (member.epoch, member.assigned) == (2, {0, 1})


@pytest.mark.parametrize("seconds", [SHORT, LONG])
def test_a_member_hears_what_to_give_up_whatever_is_lost(stage: Stage, seconds: float) -> None:
    one, two = stage.agents[0].target(), stage.agents[0].target()
    topic = one.topic(partitions=2)
    first, second = Member(one, topic), Member(two, topic)
    first.beat()
    second.beat()
    assert (first.assigned, second.assigned) == ({0, 1}, set())
    beat_through_an_outage(stage, first, seconds)
    first.beat()
    assert len(first.assigned) == 1


@pytest.mark.parametrize("seconds", [SHORT, LONG])
def test_a_member_hears_of_its_epoch_whatever_is_lost(stage: Stage, seconds: float) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=2)
    member = Member(one, topic)
    member.beat()
    grown = {"name": topic, "count": 3, "assignments": None}
    (answer,) = one.call("create_partitions", 3, topics=[grown], timeout_ms=1000)["results"]
    assert answer["error_code"] == 0
    beat_through_an_outage(stage, member, seconds)
    member.beat()
    assert (member.epoch, member.assigned) == (3, {0, 1, 2})
