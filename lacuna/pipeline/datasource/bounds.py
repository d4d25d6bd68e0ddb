"""The bounds of a read, given by edges, offsets or timestamps, as in Spark's Kafka source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from lacuna.pipeline.datasource.options import OptionError, Options

#: These stand in for an offset, as in Kafka.
LATEST: Final = -1
EARLIEST: Final = -2
_EDGES: Final = {"latest": LATEST, "earliest": EARLIEST}
#: The key of a topic's id, next to its partitions, in a stream's position.
ID: Final = "id"
_OFFSETS_LOOK: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class AtEdge:
    """A bound at the same edge of every partition: EARLIEST or LATEST."""

    edge: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """A bound at an offset or edge for each partition. All partitions that are read must be included.

    `topic_ids` contains the ids of topics whose offsets come from a stream.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """A bound at each partition's first record with this timestamp (in ms) or a later one.

    If a partition has no such record, the bound is its end if `is_latest_without`; otherwise, that is an error.
    """

    timestamp: int
    is_latest_without: bool


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """Like AtTimestamp, but with a timestamp for each partition. All partitions that are read must be included."""

    timestamps: Mapping[TopicPartition, int]
    is_latest_without: bool


Bound: TypeAlias = AtEdge | AtOffsets | AtTimestamp | AtTimestamps


def bound_of(options: Options, side: str, default: int) -> Bound:
    """Returns the bound that the options specify for `side` ("starting" or "ending"), or the edge `default`.

    If several are specified, a single timestamp for all partitions takes precedence over per-partition timestamps, and
    those take precedence over offsets. Raises OptionError.
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
        times = _numbers(options, name, 0, options.json(name))
        return AtTimestamps(times, is_latest_without)
    name = f"{side}Offsets"
    text = (options.text(name) or "").lower()
    if not text:
        return AtEdge(default)
    if text in _EDGES:
        return AtEdge(_EDGES[text])
    if not text.startswith("{"):
        raise OptionError(
            f"option {name}={text}: specify earliest, latest, or a value like {_OFFSETS_LOOK}"
        )
    given, topic_ids = _split_ids(options.json(name))
    return AtOffsets(_numbers(options, name, EARLIEST, given), topic_ids)


def _split_ids(given: Any) -> tuple[Any, dict[str, str]]:
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        return given, {}
    ids = {topic: each[ID] for topic, each in given.items() if isinstance(each.get(ID), str)}
    numbers = {
        topic: {key: value for key, value in each.items() if key != ID or topic not in ids}
        for topic, each in given.items()
    }
    return numbers, ids


def _numbers(options: Options, name: str, minimum: int, given: Any) -> dict[TopicPartition, int]:
    """Checks an option in the form {"topic": {"0": 12}}, with numbers of at least `minimum`. Raises OptionError."""
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
    raise OptionError(f"option {name}={options.text(name)}: specify a value like {_OFFSETS_LOOK}")


def _is_number(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def check_order(first: Bound, end: Bound) -> None:
    """Raises OptionError if two bounds of the same kind are in the wrong order or name different partitions."""
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
            f"the starting {what}s name the partitions {names_of(firsts)}, but the ending {what}s name "
            f"{names_of(ends)}: name the same partitions in both"
        )
    for partition, number in firsts.items():
        if 0 <= ends[partition] < number:
            raise OptionError(
                f"the starting {what} {number} of {partition} is greater than its ending {what} "
                f"{ends[partition]}"
            )


def names_of(partitions: Any, most: int = 10) -> str:
    """Formats up to `most` names of partitions, followed by the number of the others."""
    names = [str(each) for each in sorted(partitions)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")
