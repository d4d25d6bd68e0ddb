"""Assignments: sets of partitions that a member holds, should hold, or is giving up."""

from collections.abc import Iterable, Mapping

from lacuna.controlplane.v1.consumer_groups_pb2 import TopicIdPartitions

#: topic id -> partition indexes; no set is empty.
Assignment = Mapping[bytes, frozenset[int]]
NOTHING: Assignment = {}


def read_assignment(rows: Iterable[TopicIdPartitions]) -> Assignment:
    """Read an assignment from a message's rows, which may repeat a topic."""
    read: dict[bytes, set[int]] = {}
    for row in rows:
        if row.partitions:
            read.setdefault(row.topic_id, set()).update(row.partitions)
    return {topic_id: frozenset(each) for topic_id, each in read.items()}


def write_assignment(assignment: Assignment) -> list[TopicIdPartitions]:
    """Return the rows for a message; equal assignments give equal rows."""
    return [
        TopicIdPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(assignment.items())
    ]


def common(one: Assignment, other: Assignment) -> Assignment:
    shared = {topic_id: each & other.get(topic_id, frozenset()) for topic_id, each in one.items()}
    return {topic_id: each for topic_id, each in shared.items() if each}


def without(one: Assignment, other: Assignment) -> Assignment:
    """Return the partitions of the first assignment that are not in the other."""
    left = {topic_id: each - other.get(topic_id, frozenset()) for topic_id, each in one.items()}
    return {topic_id: each for topic_id, each in left.items() if each}


def joined(one: Assignment, other: Assignment) -> Assignment:
    topic_ids = [*one, *(topic_id for topic_id in other if topic_id not in one)]
    return {
        topic_id: one.get(topic_id, frozenset()) | other.get(topic_id, frozenset())
        for topic_id in topic_ids
    }


def is_within(one: Assignment, other: Assignment) -> bool:
    return all(each <= other.get(topic_id, frozenset()) for topic_id, each in one.items())


def partitions_of(assignment: Assignment) -> Iterable[tuple[bytes, int]]:
    return ((topic_id, each) for topic_id, indexes in assignment.items() for each in indexes)
