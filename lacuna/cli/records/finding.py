"""Resolves points in a topic to offsets at which reading starts and stops, without a Kafka client library."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lacuna.base.errors import UserError
from lacuna.cli.answers import check
from lacuna.cli.errors import print_error
from lacuna.cli.queries import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    existing_topic,
    list_offsets,
    topic_metadata,
    topic_offsets,
)
from lacuna.cli.units import show_count
from lacuna.controlplane.client import not_known
from lacuna.controlplane.client.times import show_time
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.operating.points import Kind, Point

#: A stop beyond every offset.
NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A partition's offsets to print, from `first` up to but excluding `stop`. Reading starts at `start`."""

    topic: str
    partition: int
    start: int
    first: int
    stop: int


async def topics_like(bootstrap: Agents, patterns: Sequence[str]) -> list[str]:
    """Return the topics that match the names and patterns, without duplicates. Raises UserError if one of these matches
    no topic.
    """
    if not any(map(_is_pattern, patterns)):
        return list(dict.fromkeys(patterns))
    async with KafkaConnection(bootstrap) as connection:
        metadata = await topic_metadata(connection, None)
    known = sorted(each.name or "" for each in metadata if not each.is_internal)
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = fnmatch.filter(known, pattern) if _is_pattern(pattern) else [pattern]
        if not matching:
            raise UserError(f"no topic matches {pattern}; `lacuna topics list` lists the topics")
        found |= dict.fromkeys(matching)
    return list(found)


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


async def find(
    bootstrap: Agents,
    topic: str,
    partitions: Sequence[int],
    begin: Point,
    until: Point,
    *,
    committed: bool,
    what: str = "--from",
) -> list[OffsetRange]:
    """Resolve points in `partitions`, or in all partitions, as of now or as of the past time `until`.

    `what` is the name of the option for `begin`, for errors. Raises UserError if the topic or a partition does not
    exist, the topic's state at a past time is not known, or no partition has reached the offset.
    """
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    async with KafkaConnection(bootstrap) as connection:
        metadata = await existing_topic(connection, topic)
        existing = sorted(each.partition_index for each in metadata.partitions)
        for each in partitions:
            check_partition(topic, each, len(existing))
        indexes = sorted(set(partitions)) or existing

        async def offsets(timestamp: int) -> dict[int, int]:
            return await topic_offsets(connection, topic, indexes, timestamp, isolation)

        starts = await offsets(EARLIEST)
        ends, written = await _bounds(connection, topic, indexes, isolation, until)

        async def resolve(point: Point) -> dict[int, int]:
            match point.kind:
                case Kind.EARLIEST:
                    return starts
                case Kind.END:
                    return {each: max(ends[each] - point.value, 0) for each in indexes}
                case Kind.OFFSET:
                    return dict.fromkeys(indexes, point.value)
                case Kind.TIME:
                    at = await offsets(point.value)
                    return {each: ends[each] if at[each] < 0 else at[each] for each in indexes}
                case Kind.PAST:
                    return ends
                case Kind.NEVER:
                    return dict.fromkeys(indexes, NEVER)

        firsts, stops = await resolve(begin), await resolve(until)
    _check_reached(topic, f"{what} {begin.value}", firsts, written)
    return [
        OffsetRange(
            topic,
            each,
            start=min(max(firsts[each], starts[each]), written[each]),
            first=firsts[each],
            stop=stops[each],
        )
        for each in indexes
    ]


async def _bounds(
    connection: KafkaConnection, topic: str, indexes: list[int], isolation: int, until: Point
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the ends of the partitions for readers and for writers. At a past time, both are the ends for readers."""
    if until.kind is Kind.PAST:
        then = await _ends_at(connection, topic, indexes, until.value)
        return then, then
    ends = await topic_offsets(connection, topic, indexes, LATEST, isolation)
    return ends, await topic_offsets(connection, topic, indexes, LATEST, READ_UNCOMMITTED)


async def _ends_at(
    connection: KafkaConnection, topic: str, indexes: list[int], at_ms: int
) -> dict[int, int]:
    """Return the partitions' ends at a past time or, with a note, at the last known time before. Raises UserError."""
    timestamps = dict.fromkeys(indexes, -at_ms)
    answers = await list_offsets(connection, topic, timestamps, READ_COMMITTED)
    for each in answers:
        if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise UserError(not_known(topic, each.timestamp))
        check(each.error_code, f"partition {each.partition_index} of {topic}")
    as_of_ms = answers[0].timestamp
    if as_of_ms // 1000 < at_ms // 1000:
        shown = show_time(as_of_ms)
        print_error(
            f"{topic} is shown as of {shown}, because its history is less precise that far back"
        )
    return {each.partition_index: each.offset for each in answers}


def _check_reached(topic: str, given: str, firsts: dict[int, int], ends: dict[int, int]) -> None:
    if all(firsts[each] > ends[each] for each in ends):
        raise UserError(
            f"{given}: {topic} ends earlier, at {max(ends.values())}; `lacuna topics describe {topic}` "
            "shows its offsets"
        )


def check_partition(topic: str, partition: int, count: int) -> None:
    """Raises UserError if a topic with `count` partitions does not have this one."""
    if partition >= count:
        given = "give 0" if count == 1 else f"choose 0 to {count - 1}"
        raise UserError(
            f"--partition {partition}: {topic} has {show_count(count, 'partition')}; {given}"
        )
