"""The interface of assignors, and the `range` and `simple` assignors. Equal groups have equal targets.

    assign(members, topics) -> member id → target

`members` are Subscribers, each with its topics and current target. `topics` maps all these topics, ordered by name, to
their partition counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.groups.consumer.assignments import Assignment, partitions_of
from lacuna.controlplane.state.groups.consumer.subscriptions import TopicCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    member_id: str
    group_instance_id: str
    topics: TopicCounts  # its subscription
    target: Assignment


Assign = Callable[[Sequence[Subscriber], TopicCounts], dict[str, Assignment]]


def assign_range(members: Sequence[Subscriber], topics: TopicCounts) -> dict[str, Assignment]:
    """Assign by `range`: each subscriber of a topic receives one run of its partitions.

    For topics with equal partition counts and subscribers, records with equal keys go to the same member. Static
    members come first, ordered by instance id, so they keep their runs.
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
    """Map each topic id to its subscribers' ids, in the members' order. Equal lists are the same object.

    There can be many members and topics, so members with equal subscriptions are handled together.
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


def assign_simple(members: Sequence[Subscriber], topics: TopicCounts) -> dict[str, Assignment]:
    """Assign as share groups do: members may share partitions, and each receives some if there are enough.

    If all members want the same topics, all partitions are assigned together; otherwise, topic by topic.
    """
    ordered = sorted(members, key=lambda each: each.member_id)
    takers_of = subscribers_of(ordered, topics)
    targets: dict[str, dict[bytes, set[int]]] = {each.member_id: {} for each in ordered}
    before = {each.member_id: each.target for each in ordered}
    same = len({id(takers) for takers in takers_of.values()}) <= 1
    blocks = [dict(topics)] if same else [{topic_id: count} for topic_id, count in topics.items()]
    for block in blocks:
        partitions = [
            (topic_id, each) for topic_id, count in block.items() for each in range(count)
        ]
        takers = takers_of[next(iter(block))] if block else []
        for member_id, (topic_id, partition) in _shared(takers, partitions, before):
            targets[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(each) for topic_id, each in sorted(held.items())}
        for member_id, held in targets.items()
    }


def _shared(
    takers: Sequence[str], partitions: Sequence[PartitionKey], before: Mapping[str, Assignment]
) -> Iterator[tuple[str, PartitionKey]]:
    """Yield (member id, partition) pairs. Members keep the partitions they have, within their quotas.

    All partitions are assigned to the same number of members, and quotas differ by at most one.
    """
    if not takers or not partitions:
        return
    sharing = -(-len(takers) // len(partitions))
    slots = sharing * len(partitions)
    left = dict.fromkeys(partitions, sharing)
    needs: dict[str, int] = {}
    held: set[tuple[str, PartitionKey]] = set()
    for number, member_id in enumerate(takers):
        quota = -(-slots * (number + 1) // len(takers)) + (-slots * number // len(takers))
        for key in sorted(partitions_of(before[member_id])):
            if quota and left.get(key, 0):
                left[key] -= 1
                quota -= 1
                held.add((member_id, key))
                yield member_id, key
        needs[member_id] = quota
    free = [key for key, count in left.items() for _ in range(count)]
    for member_id, quota in needs.items():
        given = [key for key in dict.fromkeys(free) if (member_id, key) not in held][:quota]
        for key in given:
            free.remove(key)
            yield member_id, key
