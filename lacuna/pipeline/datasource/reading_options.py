"""The options for reading: those of Spark's Kafka source, and Lacuna's own."""

import logging
import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from lacuna.pipeline.datasource.bounds import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    Bound,
    TopicPartition,
    bound_of,
    check_order,
)
from lacuna.pipeline.datasource.options import LOCATION_OPTIONS, OptionError, Options
from lacuna.pipeline.datasource.spark_api import (
    HAS_FILTERS,
    HAS_LIMITS,
    IS_PUSHDOWN_SAFE,
    VERSION,
)
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.metadata import BUCKET, CONTROL

_log = logging.getLogger("lacuna.datasource")

_PARTITIONS: Final = "partitions"
_TRANSACTIONS: Final = "transactions"
RECORDS: Final = "records"
PLAN: Final = "plan"
_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_AS_OF: Final = "asOf"
_CUT: Final = "cut"
_PER_TRIGGER: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
READING_OPTIONS: Final = (
    *LOCATION_OPTIONS,
    *_STRATEGIES,
    *_ENDING,
    *_PER_TRIGGER,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "metadata",
    "isolation",
    "view",
    _AS_OF,
    _CUT,
    "pin",
    "pushdown",
)
_INSTEAD: Final = {"topic": "it is for writing: to read, use subscribe=TOPIC"}
_PIN_SECONDS: Final = 3600.0
_MAX_TRIGGER_DELAY: Final = 900.0


@dataclass(frozen=True, slots=True)
class Topics:
    """Selects all partitions of the topics `names`, or of topics whose names contain a match for `pattern`."""

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """Returns `names`, or the `existing` names that match the pattern, sorted."""
        if self.pattern is None:
            return sorted(self.names)
        return sorted(name for name in existing if self.pattern.search(name))


@dataclass(frozen=True, slots=True)
class Partitions:
    partitions: frozenset[TopicPartition]


Selection: TypeAlias = Topics | Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The checked options for reading. `pin` and `max_trigger_delay` are in seconds; for a limit, None means no limit.

    With `as_of_ms`, a batch contains what a read_committed consumer could see at that time. With `is_cut`, a batch or
    micro-batch ends where no transaction is split, either as of that time or now. With `pushdown`, a query's filters
    narrow the records to read.
    """

    location: ClusterLocation
    metadata: str
    selection: Selection
    starting: Bound
    ending: Bound
    as_of_ms: int | None
    is_cut: bool
    is_committed: bool
    view: str
    include_headers: bool
    fail_on_data_loss: bool
    pin: float
    is_pin_given: bool
    pushdown: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float


def read_options(options: Options, *, is_streaming: bool | None = None) -> ReadOptions:
    """Checks the options for a batch or a stream (None: not known yet). Raises PipelineError."""
    options.check_names(READING_OPTIONS, _INSTEAD)
    metadata = options.one_of("metadata", (CONTROL, BUCKET), CONTROL)
    found = ReadOptions(
        location=options.location(needs_control=metadata == CONTROL),
        metadata=metadata,
        selection=_selection(options),
        starting=bound_of(options, "starting", LATEST if is_streaming else EARLIEST),
        ending=bound_of(options, "ending", LATEST),
        as_of_ms=options.past_ms(_AS_OF),
        is_cut=options.one_of(_CUT, (_PARTITIONS, _TRANSACTIONS), _PARTITIONS) == _TRANSACTIONS,
        is_committed=options.one_of(
            "isolation", ("read_committed", "read_uncommitted"), "read_committed"
        )
        == "read_committed",
        view=options.one_of("view", (RECORDS, PLAN), RECORDS),
        include_headers=options.flag("includeHeaders", False),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        pin=options.seconds("pin", _PIN_SECONDS),
        is_pin_given="pin" in options,
        pushdown=options.flag("pushdown", IS_PUSHDOWN_SAFE),
        min_partitions=options.integer("minPartitions"),
        max_records_per_partition=options.integer("maxRecordsPerPartition"),
        max_offsets_per_trigger=options.integer("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=options.integer("minOffsetsPerTrigger"),
        max_trigger_delay=options.seconds("maxTriggerDelay", _MAX_TRIGGER_DELAY),
    )
    if found.pushdown and not HAS_FILTERS:
        raise OptionError(
            f"option pushdown=true: PySpark {VERSION} passes no filters to a data source; leave the "
            "option out, so that Spark filters by itself, or install pyspark 4.1 or later"
        )
    if found.is_cut:
        cut = f"{_CUT}={_TRANSACTIONS}"
        _check_end(options, cut, (*_ENDING, "maxOffsetsPerTrigger"))
        if not found.is_committed:
            raise OptionError(
                f"option {cut}: a cut ends before open transactions; omit the `isolation` option"
            )
    if is_streaming is not None:
        (_check_streaming if is_streaming else _check_batch)(options, found)
    return found


def _selection(options: Options) -> Selection:
    given = [name for name in _STRATEGIES if name in options]
    if len(given) != 1:
        raise OptionError(
            f"exactly one of the options {', '.join(_STRATEGIES)} must be set; "
            f"{' and '.join(given) + ' are set' if given else 'none is set'}{options.where_none()}"
        )
    text = options.text(given[0]) or ""
    if given == ["assign"]:
        return Partitions(_assigned(options, text))
    if given == ["subscribePattern"]:
        return Topics(pattern=_pattern(text))
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError("option subscribe names no topic: specify subscribe=TOPIC")
    return Topics(names)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        if text:
            with warnings.catch_warnings():
                # The warning concerns syntax of Java's patterns that Python may adopt, such as [a-z&&[^b]].
                warnings.simplefilter("error", FutureWarning)
                return re.compile(text)
    except (re.error, FutureWarning) as error:
        raise OptionError(
            f"option subscribePattern={text}: {error}; specify a regular expression in the syntax of Python's "
            "re, not Java's"
        ) from None
    raise OptionError("option subscribePattern is empty: specify a regular expression")


def _assigned(options: Options, text: str) -> frozenset[TopicPartition]:
    given = options.json("assign")
    if isinstance(given, dict) and all(_is_numbers(each) for each in given.values()):
        found = frozenset(TopicPartition(name, each) for name in given for each in given[name])
        if found:
            return found
    raise OptionError(f'option assign={text}: specify a value like {{"topicA":[0,1],"topicB":[2]}}')


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _check_streaming(options: Options, found: ReadOptions) -> None:
    for name in _ENDING:
        if name in options:
            raise OptionError(
                f"option {name}: a stream has no end; read a batch with spark.read, or stop at the "
                "current end with trigger(availableNow=True)"
            )
    if _AS_OF in options:
        raise OptionError(
            f"option {_AS_OF}: a stream reads new records, not those of a past time; read a batch with "
            "spark.read"
        )
    if found.view == PLAN:
        raise OptionError("option view=plan: only a batch has a plan; use spark.read")
    for name in _PER_TRIGGER:
        if name in options and not HAS_LIMITS:
            raise OptionError(
                f"option {name}: PySpark {VERSION} cannot limit how much of a stream a Python "
                "data source reads in each batch; leave the option out, or install pyspark 4.2 or later"
            )
    low, high = found.min_offsets_per_trigger, found.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise OptionError(
            f"minOffsetsPerTrigger ({low}) is greater than maxOffsetsPerTrigger ({high})"
        )


def _check_batch(options: Options, found: ReadOptions) -> None:
    if LATEST in _edges(found.starting):
        raise OptionError("startingOffsets: a batch cannot begin at latest (-1)")
    if EARLIEST in _edges(found.ending):
        raise OptionError("endingOffsets: a batch cannot end at earliest (-2)")
    check_order(found.starting, found.ending)
    if found.as_of_ms is not None:
        _check_end(options, _AS_OF, _ENDING)
        if not found.is_committed:
            raise OptionError(
                f"option {_AS_OF}: it always shows what a read_committed consumer could see; omit "
                "the `isolation` option"
            )
    for name in _PER_TRIGGER:
        if name in options:
            _log.warning("option %s is for streams and has no effect on a batch", name)


def _check_end(options: Options, given: str, others: Iterable[str]) -> None:
    for name in others:
        if name in options:
            raise OptionError(
                f"options {given} and {name}: both set the end; specify only one of them"
            )


def _edges(bound: Bound) -> Collection[int]:
    if isinstance(bound, AtEdge):
        return (bound.edge,)
    return bound.offsets.values() if isinstance(bound, AtOffsets) else ()
