"""Tests the cost of regular expressions for the control plane's single thread, and what it caches of them (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_

import pytest

from lacuna.controlplane.state.group_topics import TopicsOfGroups
from lacuna.controlplane.state.groups.consumer import subscriptions
from lacuna.controlplane.state.groups.consumer.member import first_equal, shared_names
from lacuna.controlplane.state.groups.consumer.subscriptions import Resolver, compile_pattern
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat
from lacuna.controlplane.v1.control_pb2 import Command
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench


@dataclass
class Topics:
    """The cluster's topics, by letter."""

    counts: dict[str, int] = field(default_factory=dict)
    version: int = 0

    def find(self, name: str) -> tuple[bytes, int] | None:
        return (name.encode() * 16, self.counts[name]) if name in self.counts else None

    def name_of(self, topic_id: bytes) -> str | None:
        name = topic_id[:1].decode(errors="replace")
        return name if name in self.counts else None

    def names(self) -> list[str]:
        return list(self.counts)


class CountingTopics(Topics):
    """Counts how often all names are requested."""

    looks = 0

    def names(self) -> list[str]:
        self.looks += 1
        return super().names()


@pytest.mark.parametrize(
    "pattern", ["(.?){999}", "((((.?){10}){10}){9}c)|(.?){999}d", "a" * 4097, "(", "(?=a)b"]
)
def test_what_would_take_milliseconds_a_name_is_no_expression(pattern: str) -> None:
    assert compile_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [".*", r"(?i)[\w.-]*orders[\w.-]*", r"\p{L}+-.*", "|".join(f"topic-{n}" for n in range(400))],
)
def test_what_people_write_is_one(pattern: str) -> None:
    assert compile_pattern(pattern) is not None


def test_an_expression_is_matched_once_for_each_version_of_the_topics() -> None:
    topics = CountingTopics(counts={"t": 2, "u": 1})
    resolver = Resolver()
    for _ in range(3):
        assert resolver.resolve(topics, ("x",), "[tu]") == {b"t" * 16: 2, b"u" * 16: 1}
    assert topics.looks == 1
    del topics.counts["t"]
    topics.version += 1
    assert resolver.resolve(topics, (), "[tu]") == {b"u" * 16: 1}
    assert topics.looks == 2


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "_MAX_REMEMBERED", 200)
    topics = CountingTopics(counts={"t": 1})
    resolver = Resolver()
    for _ in range(2):
        for pattern in ("t", "t|u", "t|v", "t|w"):
            assert resolver.resolve(topics, (), pattern) == {b"t" * 16: 1}
    assert topics.looks == 8, "one has room, and goes before it is asked for again"


def test_the_same_subscription_of_many_members_is_resolved_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds: list[str] = []
    find = TopicsOfGroups.find

    def count(topics: TopicsOfGroups, name: str) -> tuple[bytes, int] | None:
        finds.append(name)
        return find(topics, name)

    monkeypatch.setattr(TopicsOfGroups, "find", count)
    bench = ConsumerBench()
    for name in "tuvw":
        bench.run(f"topic {name} 1")
    for number in range(20):
        command = ConsumerGroupHeartbeat(
            group_id="g",
            member_id=f"m{number}",
            rebalance_timeout_ms=1000,
            has_topic_names=True,
            topic_names="tuvw",
            has_owned=True,
            needs_member_id=True,
        )
        bench.send("", Command(consumer_group_heartbeat=command))
    members = bench.groups.consumers["g"].members.values()
    assert len(members) == 20
    assert sorted(finds) == list("tuvw")
    first = next(iter(members)).subscription.topic_names
    assert all(map(is_, next(reversed(members)).subscription.topic_names, first))


def test_equal_names_are_one_string_and_those_that_are_no_topics_are_not_kept() -> None:
    """Clients choose names, so storing them has a bound."""
    one, other = (shared_names(["".join(("or", "ders")), "x" * 250]) for _ in range(2))
    assert one == other == ("orders", "x" * 250)
    assert one[0] is other[0]
    before = first_equal.cache_info()
    shared_names(["y" * 250, "z" * 32_767])
    assert first_equal.cache_info().currsize == before.currsize
    assert before.maxsize is not None
