"""Configures a streams group's topology (KIP-1071): computes its tasks and its internal topics' partition counts.

The rules are Kafka's. A repartition topic without a given partition count receives the largest count among the topics
that its writer reads; if several subtopologies write to it, the first one with a known count decides. Copartitioned
topics have equal counts. A subtopology has as many tasks as the largest topic that it reads has partitions, and its
changelog topics have one partition per task.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.groups.streams import Configured, Subtopology
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    InternalTopicInfo,
    StreamsSubtopology,
    StreamsTopology,
)
from lacuna.controlplane.verbs.refusals import Refused

STALE_TOPOLOGY: Final = 0
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6

#: Bounds on a topology, since one step configures it and assigns its tasks.
MOST_SUBTOPOLOGIES: Final = 1_000
MOST_TOPICS: Final = 5_000
MOST_TASKS: Final = 10_000
LARGEST_TOPOLOGY: Final = 1 << 20
_SHOWN: Final = 3

#: Returns the partition count of an existing topic, or None.
Find: TypeAlias = Callable[[str], int | None]


class _Problem(Exception):
    """The topics do not fit the topology. The exception holds one of Kafka's statuses, and the detail."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def check_topology(topology: StreamsTopology) -> None:
    """Raise Refused for a topology that is invalid regardless of the existing topics."""
    if topology.epoch < 0:
        raise invalid(f"The topology epoch is {topology.epoch}, but must not be negative.")
    if topology.ByteSize() > LARGEST_TOPOLOGY:
        raise invalid(
            f"A topology may be at most {LARGEST_TOPOLOGY} bytes long. Split the application."
        )
    ids = {each.subtopology_id for each in topology.subtopologies}
    if len(ids) < len(topology.subtopologies):
        raise invalid("A subtopology occurs twice.")
    count = sum(
        len(each.source_topics)
        + len(each.changelog_topics)
        + len(each.repartition_source_topics)
        + len(each.repartition_sink_topics)
        for each in topology.subtopologies
    )
    if len(ids) > MOST_SUBTOPOLOGIES or count > MOST_TOPICS:
        raise invalid(
            f"A topology may have at most {MOST_SUBTOPOLOGIES} subtopologies and name {MOST_TOPICS}"
            f" topics, but this one has {len(ids)} subtopologies and names {count} topics. Split the application."
        )
    for each in topology.subtopologies:
        _check_subtopology(each)


def _check_subtopology(subtopology: StreamsSubtopology) -> None:
    for info in subtopology.changelog_topics:
        if info.partition_count:
            raise invalid(
                f"Changelog topic {info.name} must have an undefined partition count, but it is set"
                f" to {info.partition_count}."
            )
    for info in subtopology.repartition_source_topics:
        if not 0 <= info.partition_count <= MOST_TASKS:
            raise invalid(f"Repartition topic {info.name} has {info.partition_count} partitions.")
    if not subtopology.source_topics and not subtopology.repartition_source_topics:
        raise invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    _check_indexes(subtopology)


def _check_indexes(subtopology: StreamsSubtopology) -> None:
    for group in subtopology.copartitioned:
        named = (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, subtopology.repartition_source_topics),
        )
        if any(not 0 <= index < len(topics) for indexes, topics in named for index in indexes):
            raise invalid(
                f"A copartition group of subtopology {subtopology.subtopology_id} names a topic that"
                " the subtopology does not have."
            )


def invalid(message: str) -> Refused:
    """Return the error for an invalid topology."""
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def configure(topology: StreamsTopology, find: Find) -> Configured:
    """Configure the topology for the cluster's topics. Raises Refused if the topology is invalid."""
    try:
        counts = _decided(topology, find)
        configured = _with_counts(topology, counts)
        missing = _missing(configured, find)
    except _Problem as found:
        return Configured(topology=topology, problem=(found.status, found.detail))
    sizes = {**counts, **{name: n for name in _sources(topology) if (n := find(name)) is not None}}
    subtopologies = {
        each.subtopology_id: _subtopology(each, sizes) for each in topology.subtopologies
    }
    total = sum(each.task_count for each in subtopologies.values())
    if total > MOST_TASKS:
        raise invalid(
            f"The topology has {total} tasks, but a streams group can have at most {MOST_TASKS}. Split the"
            " application, or give its topics fewer partitions."
        )
    problem = None
    if missing:
        problem = MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(missing)}"
    return Configured(
        topology=configured,
        subtopologies=subtopologies,
        missing=[missing[name] for name in sorted(missing)],
        problem=problem,
    )


def _sources(topology: StreamsTopology) -> Iterator[str]:
    for each in topology.subtopologies:
        yield from each.source_topics
        yield from (info.name for info in each.repartition_source_topics)


def _subtopology(subtopology: StreamsSubtopology, sizes: Mapping[str, int]) -> Subtopology:
    repartitioned = (info.name for info in subtopology.repartition_source_topics)
    sources = {name: sizes[name] for name in (*subtopology.source_topics, *repartitioned)}
    return Subtopology(max(sources.values()), bool(subtopology.changelog_topics), sources)


def _decided(topology: StreamsTopology, find: Find) -> dict[str, int]:
    """Return the partition counts of all internal topics. Raises _Problem and Refused."""
    read = {name for each in topology.subtopologies for name in each.source_topics}
    absent = {name for name in read if find(name) is None}
    if absent:
        raise _Problem(MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")
    counts = _of_repartition_topics(topology, find)
    is_given = {
        info.name: info.partition_count > 0
        for each in topology.subtopologies
        for info in each.repartition_source_topics
    }
    for each in topology.subtopologies:
        for topics in _copartitioned(each):
            counts.update(_equal(topics, is_given, counts, find))
    for each in topology.subtopologies:
        names = (*each.source_topics, *(info.name for info in each.repartition_source_topics))
        most = max(_count(name, counts, find) for name in names)
        counts.update((info.name, most) for info in each.changelog_topics)
    return counts


def _count(name: str, counts: Mapping[str, int], find: Find) -> int:
    """Return the partition count of a topic: its own if it exists, otherwise the computed one."""
    count = find(name)
    if count is None:
        count = counts.get(name)
    if count is None:
        raise invalid(f"The number of partitions of topic {name} is unknown.")
    return count


def _of_repartition_topics(topology: StreamsTopology, find: Find) -> dict[str, int]:
    """Return the counts of repartition topics: given ones, and those derived from the topics' writers."""
    counts = {
        info.name: info.partition_count
        for each in topology.subtopologies
        for info in each.repartition_source_topics
        if info.partition_count
    }
    _follow(topology, counts, find)
    sunk = (name for each in topology.subtopologies for name in each.repartition_sink_topics)
    if any(name not in counts for name in sunk):
        raise invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology"
            " that cannot be resolved."
        )
    sourced = (
        info.name for each in topology.subtopologies for info in each.repartition_source_topics
    )
    if any(name not in counts for name in sourced):
        raise invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is"
            " never used as a sink topic."
        )
    return counts


def _follow(topology: StreamsTopology, counts: dict[str, int], find: Find) -> None:
    """Add the counts of the topics that subtopologies write to, as far as they can be derived from the topics that
    these subtopologies read.

    Subtopologies are visited in order, and again after the last one if the counts of all their source topics are
    unknown. The subtopologies of a valid topology form no loops.
    """
    readers: dict[str, list[int]] = {}
    for index, each in enumerate(topology.subtopologies):
        for info in each.repartition_source_topics:
            readers.setdefault(info.name, []).append(index)
    # A heap of (number of the round, index of a subtopology that reads a topic with a known count).
    visits = [
        (0, index)
        for index, each in enumerate(topology.subtopologies)
        if _most_read(each, counts, find) is not None
    ]
    visited: set[int] = set()
    while visits:
        number, index = heapq.heappop(visits)
        each = topology.subtopologies[index]
        most = None if index in visited else _most_read(each, counts, find)
        if most is None:
            continue
        visited.add(index)
        for name in each.repartition_sink_topics:
            if name not in counts:
                counts[name] = most
                for reader in readers.get(name, ()):
                    heapq.heappush(visits, (number + (reader <= index), reader))


def _most_read(
    subtopology: StreamsSubtopology, counts: Mapping[str, int], find: Find
) -> int | None:
    """Return the largest known partition count among the topics that a subtopology reads, or None."""
    known = [counts.get(info.name) for info in subtopology.repartition_source_topics]
    known += [find(name) for name in subtopology.source_topics]
    return max((each for each in known if each is not None), default=None)


def _copartitioned(subtopology: StreamsSubtopology) -> Iterator[list[str]]:
    for group in subtopology.copartitioned:
        names = [subtopology.source_topics[index] for index in group.source_topics]
        names += [
            subtopology.repartition_source_topics[index].name
            for index in group.repartition_source_topics
        ]
        if names:
            yield list(dict.fromkeys(names))


def _equal(
    topics: list[str], is_given: Mapping[str, bool], counts: Mapping[str, int], find: Find
) -> dict[str, int]:
    """Return the partition count of each repartition topic among copartitioned topics, by name.

    `is_given` shows for each repartition topic whether the topology specifies its count.
    """
    own = {name: _count(name, counts, find) for name in topics if name in is_given}
    others = {name: _count(name, counts, find) for name in topics if name not in is_given}
    fixed = {name: count for name, count in own.items() if is_given[name]}
    deciding = others or fixed
    if len({*deciding.values()}) > 1:
        shown = ", ".join(f"{name}={count}" for name, count in sorted(deciding.items()))
        raise _Problem(
            INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{shown}}}]",
        )
    count = next(iter(deciding.values())) if deciding else max(own.values())
    for name, fixed_count in fixed.items():
        if fixed_count != count:
            raise _Problem(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{fixed_count}] of repartition topic [{name}] doesn't match number of partitions"
                f" [{count}] of the source topic.",
            )
    return dict.fromkeys(own, count)


def _with_counts(topology: StreamsTopology, counts: Mapping[str, int]) -> StreamsTopology:
    configured = StreamsTopology()
    configured.CopyFrom(topology)
    for each in configured.subtopologies:
        for info in (*each.changelog_topics, *each.repartition_source_topics):
            info.partition_count = info.partition_count or counts[info.name]
    return configured


def _missing(topology: StreamsTopology, find: Find) -> dict[str, InternalTopicInfo]:
    """Return the internal topics that do not exist. Raises _Problem if one exists with a wrong partition count."""
    missing = {}
    for each in topology.subtopologies:
        for info in (*each.repartition_source_topics, *each.changelog_topics):
            count = find(info.name)
            if count is None:
                missing[info.name] = info
            elif count != info.partition_count:
                raise _Problem(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {info.name} has different number of partitions: expected"
                    f" {info.partition_count}, found {count}",
                )
    return missing


def _summary(names: Mapping[str, object] | set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} additional topics" if more > 0 else shown
