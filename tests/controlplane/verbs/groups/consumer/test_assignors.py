"""Tests what the assignors guarantee for any group (S26, KIP-848)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.state.groups.consumer.assignments import (
    Assignment,
    partitions_of,
    read_assignment,
)
from lacuna.controlplane.v1.consumer_groups_pb2 import TopicIdPartitions
from lacuna.controlplane.verbs.groups.consumer.advance import ASSIGNORS
from lacuna.controlplane.verbs.groups.consumer.assignors import Assign, Subscriber, assign_range
from lacuna.controlplane.verbs.groups.consumer.uniform import assign_uniform

Members = list[Subscriber]
TopicCounts = dict[bytes, int]


@st.composite
def groups(draw: st.DrawFn, *, same: bool | None = None) -> tuple[Members, TopicCounts]:
    """Draws members with subscriptions and earlier targets, which may be anything disjoint."""
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
    """a cannot give c a partition that only b can take, so b passes on one of its own."""
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
    """Return the number of Python lines that `run` executes, as a cost that does not depend on the machine."""
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
