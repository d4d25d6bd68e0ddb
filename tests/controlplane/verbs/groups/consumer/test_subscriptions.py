"""Tests subscriptions in KIP-848 groups: what assignors guarantee, and the cost of regular expressions (S26)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.state.group_topics import TopicsOfGroups
from lacuna.controlplane.state.groups.consumer import subscriptions
from lacuna.controlplane.state.groups.consumer.assignments import (
    Assignment,
    partitions_of,
    read_assignment,
)
from lacuna.controlplane.state.groups.consumer.member import first_equal, shared_names
from lacuna.controlplane.state.groups.consumer.subscriptions import Resolver, compile_pattern
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeat, TopicIdPartitions
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.verbs.groups.consumer.advance import ASSIGNORS
from lacuna.controlplane.verbs.groups.consumer.assignors import Assign, Subscriber, assign_range
from lacuna.controlplane.verbs.groups.consumer.uniform import assign_uniform
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench

Members = list[Subscriber]
TopicCounts = dict[bytes, int]


@st.composite
def groups(draw: st.DrawFn, *, same: bool | None = None) -> tuple[Members, TopicCounts]:
    """Draws members with subscriptions, and with any disjoint earlier targets."""
    names = [name.encode() for name in "tuvw"[: draw(st.integers(1, 4))]]
    topics = {name: draw(st.integers(1, 7)) for name in names}
    count = draw(st.integers(1, 6))
    random = Random(draw(st.integers(0, 2**32)))
    is_same = draw(st.booleans()) if same is None else same
    before: list[dict[bytes, set[int]]] = [{} for _ in range(count)]
    for name in [*names, b"gone"]:
        for partition in range(topics.get(name, 2) + 2):
            if random.random() < 0.7:
                before[random.randrange(count)].setdefault(name, set()).add(partition)
    members = []
    for number in range(count):
        wanted = names if is_same else [each for each in names if random.random() < 0.6]
        members.append(
            Subscriber(
                member_id=f"m{number}",
                group_instance_id=f"i{9 - number}" if random.random() < 0.2 else "",
                topics={name: topics[name] for name in wanted},
                target={topic: frozenset(ids) for topic, ids in before[number].items()},
            )
        )
    return members, topics


def loads(targets: dict[str, Assignment]) -> dict[str, int]:
    return {each: sum(map(len, target.values())) for each, target in targets.items()}


@given(groups(), st.sampled_from(sorted(ASSIGNORS)), st.randoms())
def test_each_partition_goes_to_one_subscriber(
    group: tuple[Members, TopicCounts], name: str, random: Random
) -> None:
    members, topics = group
    assign: Assign = ASSIGNORS[name]
    targets = assign(members, topics)
    assert set(targets) == {each.member_id for each in members}
    given_out = Counter(key for target in targets.values() for key in partitions_of(target))
    wanted = {
        (topic, partition)
        for topic, count in topics.items()
        if any(topic in each.topics for each in members)
        for partition in range(count)
    }
    assert given_out == Counter(wanted)
    for member in members:
        assert targets[member.member_id].keys() <= member.topics.keys()
        assert all(targets[member.member_id].values()), "no empty sets"
    shuffled = random.sample(members, len(members))
    assert assign(shuffled, topics) == targets, "the order of the members does not matter"


@given(groups(same=True))
def test_uniform_is_balanced_and_moves_as_little_as_it_can(
    group: tuple[Members, TopicCounts],
) -> None:
    members, topics = group
    targets = assign_uniform(members, topics)
    count = loads(targets)
    assert max(count.values()) - min(count.values()) <= 1
    quota, extra = divmod(sum(topics.values()), len(members))
    had = sorted((_still_there(member, topics) for member in members), reverse=True)
    best = sum(min(each, quota + (place < extra)) for place, each in enumerate(had))
    assert sum(_kept(member, targets) for member in members) == best
    again = [_with_target(member, targets) for member in members]
    assert assign_uniform(again, topics) == targets, "what is balanced stays"


def _with_target(member: Subscriber, targets: dict[str, Assignment]) -> Subscriber:
    return Subscriber(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=member.topics,
        target=targets[member.member_id],
    )


def _still_there(member: Subscriber, topics: TopicCounts) -> int:
    return sum(
        partition < topics[topic]
        for topic, partition in partitions_of(member.target)
        if topic in member.topics
    )


def _kept(member: Subscriber, targets: dict[str, Assignment]) -> int:
    held = set(partitions_of(targets[member.member_id]))
    return len(held & set(partitions_of(member.target)))


@given(groups(same=False))
def test_uniform_leaves_nobody_two_short_who_could_take_one(
    group: tuple[Members, TopicCounts],
) -> None:
    members, topics = group
    targets = assign_uniform(members, topics)
    count = loads(targets)
    for giver in members:
        for topic in targets[giver.member_id]:
            for taker in members:
                if topic in taker.topics:
                    assert count[giver.member_id] - count[taker.member_id] <= 1


def test_uniform_moves_along_a_chain() -> None:
    """a has no partition that c can take, so b gives c one of its own."""
    members = [
        Subscriber(
            member_id="a",
            group_instance_id="",
            topics={b"t": 5},
            target={b"t": frozenset(range(3))},
        ),
        Subscriber(
            member_id="b",
            group_instance_id="",
            topics={b"t": 5, b"u": 1},
            target={b"t": frozenset({3, 4}), b"u": frozenset({0})},
        ),
        Subscriber(member_id="c", group_instance_id="", topics={b"u": 1}, target={}),
    ]
    targets = assign_uniform(members, {b"t": 5, b"u": 1})
    assert sorted(loads(targets).values()) == [1, 2, 3]
    assert targets["c"] == {b"u": frozenset({0})}
    assert targets["a"] == {b"t": frozenset({0, 1, 2})}


def test_range_gives_runs_and_the_same_ones_of_equal_topics() -> None:
    topics = {b"t": 5, b"u": 5}
    members = [
        Subscriber(member_id=each, group_instance_id=instance, topics=topics, target={})
        for each, instance in (("a", ""), ("b", "z"), ("c", "y"))
    ]
    targets = assign_range(members, topics)
    runs = {each: [sorted(ids) for ids in target.values()] for each, target in targets.items()}
    assert runs == {"c": [[0, 1]] * 2, "b": [[2, 3]] * 2, "a": [[4]] * 2}


def _subscriber(member_id: str, topics: TopicCounts, held: Assignment) -> Subscriber:
    return Subscriber(member_id=member_id, group_instance_id="", topics=topics, target=held)


def _steps(run: Callable[[], object]) -> int:
    """Return how many Python lines `run` executes, as a cost that does not depend on the machine."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def test_uniform_takes_half_of_a_large_topic_away_in_linear_time() -> None:
    topics = {b"a": 1000, b"b": 1}
    one = _subscriber("m1", {b"a": 1000}, {b"a": frozenset(range(1000))})
    members = [one, _subscriber("m2", topics, {})]
    assert loads(assign_uniform(members, topics)) == {"m1": 501, "m2": 500}
    assert _steps(lambda: assign_uniform(members, topics)) < 100_000


def test_uniform_does_not_try_each_level_between_members_that_share_nothing() -> None:
    topics = {b"a": 2000, b"b": 300}
    members = [_subscriber("m", {b"a": 2000}, {})]
    members += [_subscriber(f"n{each}", {b"b": 300}, {}) for each in range(300)]
    assert loads(assign_uniform(members, topics))["m"] == 2000
    assert _steps(lambda: assign_uniform(members, topics)) < 100_000


def test_what_a_message_says_of_one_topic_in_many_rows_is_read_as_one() -> None:
    rows = [TopicIdPartitions(topic_id=b"a", partitions=[each]) for each in range(5)]
    rows += [TopicIdPartitions(topic_id=b"a", partitions=[4, 7]), TopicIdPartitions(topic_id=b"b")]
    assert read_assignment(rows) == {b"a": frozenset((0, 1, 2, 3, 4, 7))}


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
    """Counts how often the list of all names is requested."""

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
    """Clients choose the names, so the memory for them is bounded."""
    one, other = (shared_names(["".join(("or", "ders")), "x" * 250]) for _ in range(2))
    assert one == other == ("orders", "x" * 250)
    assert one[0] is other[0]
    before = first_equal.cache_info()
    shared_names(["y" * 250, "z" * 32_767])
    assert first_equal.cache_info().currsize == before.currsize
    assert before.maxsize is not None
