"""What an assignor takes and gives, and the `range` assignor. Equal groups get equal targets.

    assign(members, topics) -> member id → target

`members` are (Subscriber, ...): who wants which topics, and what it is to hold up to now; `topics` their
partition counts, in the order of their names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.groups.consumer.assignments import Assignment
from controlplane.groups.consumer.subscriptions import TopicCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as an assignor sees it."""

    member_id: str
    group_instance_id: str
    topics: TopicCounts  # those that it subscribed to
    target: Assignment


Assign = Callable[[Sequence[Subscriber], TopicCounts], dict[str, Assignment]]


def assign_range(members: Sequence[Subscriber], topics: TopicCounts) -> dict[str, Assignment]:
    """`range`: of each topic one run of partitions to each subscriber, so that equal keys of topics
    with equal partition counts meet in one member. Static members come first, in the order of their
    instance ids, so that they keep their runs.
    """
    ordered = sorted(members, key=_range_order)
    targets: dict[str, dict[bytes, frozenset[int]]] = {each.member_id: {} for each in ordered}
    takers_of = subscribers_of(ordered, topics)
    for topic_id, count in topics.items():
        takers = takers_of[topic_id]
        quota, extra = divmod(count, len(takers)) if takers else (0, 0)
        start = 0
        # Where members are more than partitions those at the end get none.
        for number, member_id in enumerate(takers[:count]):
            end = start + quota + (number < extra)
            targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def subscribers_of(members: Sequence[Subscriber], topics: TopicCounts) -> Mapping[bytes, list[str]]:
    """Topic id to the ids of the members that want it, in their order; equal lists are one list.

    Members that want the same are looked at together: they are many, and so are their topics.
    """
    kinds = {id(each.topics): each.topics for each in members}
    lists: dict[frozenset[int], list[str]] = {}
    found = {}
    for topic_id in topics:
        wanting = frozenset(kind for kind, wanted in kinds.items() if topic_id in wanted)
        if wanting not in lists:
            lists[wanting] = [each.member_id for each in members if id(each.topics) in wanting]
        found[topic_id] = lists[wanting]
    return found


def _range_order(member: Subscriber) -> tuple[bool, str]:
    return not member.group_instance_id, member.group_instance_id or member.member_id
