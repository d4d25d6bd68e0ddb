"""The interface of assignors, and the `range` assignor. Equal groups get equal targets.

    assign(members, topics) -> member id → target

`members` are Subscribers, with the topics that each wants and its current target. `topics` has the partition counts of
all these topics, in the order of their names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lacuna.controlplane.state.groups.consumer.assignments import Assignment
from lacuna.controlplane.state.groups.consumer.subscriptions import TopicCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as an assignor sees it."""

    member_id: str
    group_instance_id: str
    topics: TopicCounts  # the topics that it subscribed to
    target: Assignment


Assign = Callable[[Sequence[Subscriber], TopicCounts], dict[str, Assignment]]


def assign_range(members: Sequence[Subscriber], topics: TopicCounts) -> dict[str, Assignment]:
    """Assign by `range`: each subscriber of a topic gets one run of its partitions.

    For topics with equal partition counts and equal subscribers, records with equal keys go to the same member. Static
    members come first, ordered by instance id, so that they keep their runs.
    """
    ordered = sorted(members, key=_range_order)
    targets: dict[str, dict[bytes, frozenset[int]]] = {each.member_id: {} for each in ordered}
    takers_of = subscribers_of(ordered, topics)
    for topic_id, count in topics.items():
        takers = takers_of[topic_id]
        quota, extra = divmod(count, len(takers)) if takers else (0, 0)
        start = 0
        # If there are more members than partitions, the last members get none.
        for number, member_id in enumerate(takers[:count]):
            end = start + quota + (number < extra)
            targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def subscribers_of(members: Sequence[Subscriber], topics: TopicCounts) -> Mapping[bytes, list[str]]:
    """Map each topic id to the ids of the members that want it, in the members' order. Equal lists are one object.

    Members with equal subscriptions are handled together, since there can be many members and many topics.
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
