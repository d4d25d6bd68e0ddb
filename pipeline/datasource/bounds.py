"""Where reading begins and ends, as Spark's Kafka source says it: edges, offsets, timestamps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from pipeline.datasource.options import OptionError, Options

#: In place of an offset, as Kafka has them.
LATEST: Final = -1
EARLIEST: Final = -2
_EDGES: Final = {"latest": LATEST, "earliest": EARLIEST}
_OFFSETS_LOOK: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class AtEdge:
    """At EARLIEST or at LATEST of every partition."""

    edge: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At an offset of each partition, or one of its edges. All partitions that are read are named."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """At the first record with that time (ms since the epoch) or a later one, in every partition."""

    timestamp: int
    is_latest_without: bool


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same, with a time for each partition; all partitions that are read are named.

    Where no record is as late, reading begins at the end if `is_latest_without`, and is an error else.
    """

    timestamps: Mapping[TopicPartition, int]
    is_latest_without: bool


Bound: TypeAlias = AtEdge | AtOffsets | AtTimestamp | AtTimestamps


def bound_of(options: Options, side: str, default: int) -> Bound:
    """The bound of `side`, "starting" or "ending"; of several options the more general time wins.

    Raises OptionError.
    """
    is_latest_without = side == "ending" or (
        options.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest"
    )
    timestamp = options.integer(f"{side}Timestamp", 0)
    if timestamp is not None:
        return AtTimestamp(timestamp, is_latest_without)
    name = f"{side}OffsetsByTimestamp"
    if name in options:
        return AtTimestamps(partition_numbers(options, name, 0), is_latest_without)
    name = f"{side}Offsets"
    text = (options.text(name) or "").lower()
    if not text:
        return AtEdge(default)
    if text in _EDGES:
        return AtEdge(_EDGES[text])
    if not text.startswith("{"):
        raise OptionError(
            f"option {name}={text}: it is earliest, latest, or what looks like {_OFFSETS_LOOK}"
        )
    return AtOffsets(partition_numbers(options, name, EARLIEST))


def partition_numbers(options: Options, name: str, minimum: int) -> dict[TopicPartition, int]:
    """Of {"topic": {"0": 12}}."""
    given = options.json(name)
    if isinstance(given, dict) and all(isinstance(each, dict) for each in given.values()):
        found = {
            TopicPartition(topic, int(partition)): number
            for topic, partitions in given.items()
            for partition, number in partitions.items()
            if partition.isdecimal()
        }
        if len(found) == sum(map(len, given.values())) and all(
            _is_number(number, minimum) for number in found.values()
        ):
            return found
    raise OptionError(f"option {name}={options.text(name)}: it looks like {_OFFSETS_LOOK}")


def _is_number(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """{"topic": {"0": 12}}, always in the same order, as Spark compares the text."""
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def of_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The inverse."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def check_order(first: Bound, end: Bound) -> None:
    """Raises OptionError where both are of one kind, and in the wrong order or not of the same partitions."""
    if isinstance(first, AtTimestamp) and isinstance(end, AtTimestamp):
        if end.timestamp < first.timestamp:
            raise OptionError(
                f"startingTimestamp ({first.timestamp}) is later than endingTimestamp ({end.timestamp})"
            )
        return
    if isinstance(first, AtOffsets) and isinstance(end, AtOffsets):
        firsts, ends, what = first.offsets, end.offsets, "offset"
    elif isinstance(first, AtTimestamps) and isinstance(end, AtTimestamps):
        firsts, ends, what = first.timestamps, end.timestamps, "timestamp"
    else:
        return
    if firsts.keys() != ends.keys():
        raise OptionError(
            f"the starting {what}s are of the partitions {names_of(firsts)}, the ending {what}s of "
            f"{names_of(ends)}: name the same ones"
        )
    for partition, number in firsts.items():
        if 0 <= ends[partition] < number:
            raise OptionError(
                f"the starting {what} {number} of {partition} is greater than its ending {what} "
                f"{ends[partition]}"
            )


def names_of(partitions: Any, most: int = 10) -> str:
    """In words, not more than `most` of them."""
    names = [str(each) for each in sorted(partitions)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")
