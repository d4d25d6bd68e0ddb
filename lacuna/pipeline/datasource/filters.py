"""Uses the filters that Spark pushes down to narrow the partitions, offsets and timestamps to read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.spark_api import Filter
from lacuna.pipeline.datasource.spark_api import filter_kinds as kinds
from lacuna.pipeline.decoding import Bounds

MAX_INT64: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_TESTS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    kinds.EqualTo: lambda ours, given: bool(ours == given),
    kinds.EqualNullSafe: lambda ours, given: bool(ours == given),
    kinds.In: lambda ours, given: ours in given,
    kinds.GreaterThan: lambda ours, given: bool(ours > given),
    kinds.GreaterThanOrEqual: lambda ours, given: bool(ours >= given),
    kinds.LessThan: lambda ours, given: bool(ours < given),
    kinds.LessThanOrEqual: lambda ours, given: bool(ours <= given),
    kinds.StringStartsWith: lambda ours, given: ours.startswith(given),
    kinds.StringEndsWith: lambda ours, given: ours.endswith(given),
    kinds.StringContains: lambda ours, given: given in ours,
}


@dataclass(frozen=True, slots=True)
class Condition(Bounds):
    """The records to read: those within the bounds that pass the filters on topic and partition in `partitions`."""

    partitions: tuple[Filter, ...] = field(default=())

    def meets(self, partition: TopicPartition) -> bool:
        return all(_is_met(each, partition._asdict()) for each in self.partitions)

    def and_(self, given: Filter) -> tuple["Condition", bool]:
        """Returns the condition narrowed by a filter, and whether Spark can therefore skip the filter."""
        if isinstance(given, kinds.IsNotNull):
            return self, given.attribute[0] in _NEVER_NULL
        column = _column_of(given)
        if column in ("topic", "partition"):
            return replace(self, partitions=(*self.partitions, given)), True
        if column == "offset":
            found = _range_of(given, 1)
        elif column == "timestamp":
            found = _range_of(given, 1000)
        else:
            return self, False
        if found is None:
            return self, False
        low, high, is_exact = found
        if column == "offset":
            first, end = max(self.first_offset, low), min(self.end_offset, high + 1)
            return replace(self, first_offset=first, end_offset=end), is_exact
        low, high = max(self.min_timestamp, low), min(self.max_timestamp, high)
        return replace(self, min_timestamp=low, max_timestamp=high), is_exact


_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


def push(condition: Condition, filters: Iterable[Filter]) -> tuple[Condition, list[Filter]]:
    """Applies the filters to the condition as far as possible. Also returns the filters that Spark must still apply."""
    left: list[Filter] = []
    for each in filters:
        condition, is_exact = condition.and_(each)
        if not is_exact:
            left.append(each)
    return condition, left


def _column_of(given: Filter) -> str | None:
    """Returns the column of a filter, or None if the filter cannot be evaluated on the driver."""
    inner = given.child if isinstance(given, kinds.Not) else given
    if type(inner) not in _TESTS or getattr(inner, "value", None) is None:
        return None
    name: str = inner.attribute[0]  # type: ignore[attr-defined]
    if isinstance(inner, kinds.In) and None in inner.value:
        return None
    return name


def _is_met(given: Filter, row: Mapping[str, Any]) -> bool:
    if isinstance(given, kinds.Not):
        return not _is_met(given.child, row)
    return _TESTS[type(given)](row[given.attribute[0]], given.value)  # type: ignore[attr-defined]


def _range_of(given: Filter, scale: int) -> tuple[int, int, bool] | None:
    """Returns the range that a filter allows, as (least, greatest, is exact), or None if it sets no bounds.

    The column's values are `scale` times Lacuna's numbers.
    """
    if isinstance(given, kinds.In):
        numbers = [_number(each) for each in given.value]
        if not numbers:
            return 1, 0, True
        return -(-min(numbers) // scale), max(numbers) // scale, len(set(numbers)) == 1
    if isinstance(given, kinds.Not):
        return None
    number = _number(given.value)  # type: ignore[attr-defined]
    at_least, at_most = -(-number // scale), number // scale
    match given:
        case kinds.EqualTo() | kinds.EqualNullSafe():
            return at_least, at_most, True
        case kinds.GreaterThanOrEqual():
            return at_least, MAX_INT64 - 1, True
        case kinds.GreaterThan():
            return at_most + 1, MAX_INT64 - 1, True
        case kinds.LessThanOrEqual():
            return -MAX_INT64, at_most, True
        case kinds.LessThan():
            return -MAX_INT64, at_least - 1, True
    return None


def _number(value: Any) -> int:
    """Converts an offset or a time; times become microseconds since the epoch."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // _MICROSECOND
    return int(value)
