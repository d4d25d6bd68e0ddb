"""`lacuna.read`: reads topics as Arrow, straight from the bucket (docs/arrow.md)."""

import logging
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Self, TypeAlias

import pyarrow as pa

from lacuna.controlplane.client import not_known, past_time_of, show_time
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.decoding import Bounds, first_offset_since
from lacuna.pipeline.errors import DataLossError, PipelineError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import ReadHold
from lacuna.pipeline.location import STORE_VARIABLE, ClusterLocation, find_cluster
from lacuna.pipeline.metadata import BUCKET, CONTROL, MetadataSource, open_checked
from lacuna.pipeline.record_batches import Span, record_batches, schema_of
from lacuna.pipeline.stores import shared_store

_log = logging.getLogger("lacuna.pipeline")

#: A time: text as accepted by `--at`, ms since 1970, or a datetime, which is local unless it has a time zone.
Time: TypeAlias = datetime | str | int
#: Offsets by partition or, for several topics, by topic and partition.
Offsets: TypeAlias = Mapping[int, int] | Mapping[str, Mapping[int, int]] | Mapping[str, Any]
#: Where to begin or to end in each partition: an offset, a time, or an offset for each partition.
Point: TypeAlias = int | datetime | str | Offsets

_ISOLATIONS: Final = {
    "read_committed": True,
    "read_uncommitted": False,
    "committed": True,
    "uncommitted": False,
}
_EDGE: Final = re.compile(r"earliest|latest(?:-(?P<before>[0-9]{1,18}))?")
TRANSACTIONS: Final = "transactions"


class Part(NamedTuple):
    """A partition to read: its topic's name, its number, and its key."""

    topic: str
    number: int
    key: PartitionKey

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read, checked as far as possible without a cluster."""

    topics: tuple[str, ...]
    schema: pa.Schema
    start: Point | None = None
    end: Point | None = None
    as_of_ms: int | None = None
    is_cut: bool = False
    timestamps: tuple[int | None, int | None] = (None, None)
    partitions: tuple[int, ...] | None = None
    is_committed: bool = True

    @classmethod
    def of(
        cls,
        topics: str | Iterable[str],
        *,
        start: Point | None = None,
        end: Point | None = None,
        as_of: Time | None = None,
        cut: str | None = None,
        timestamps: tuple[Time | None, Time | None] | None = None,
        columns: Iterable[str] | None = None,
        partitions: Iterable[int] | int | None = None,
        headers: bool = False,
        isolation: str = "read_committed",
    ) -> Self:
        """Checks the arguments of `read`. Raises PipelineError."""
        names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
        if not names:
            raise PipelineError("no topic is specified: specify at least one")
        if isolation not in _ISOLATIONS:
            raise PipelineError(
                f"isolation={isolation!r}: choose 'read_committed' or 'read_uncommitted'"
            )
        if cut not in (None, TRANSACTIONS):
            raise PipelineError(f"cut={cut!r}: specify cut={TRANSACTIONS!r}, or omit it")
        given = [name for name, value in (("as_of", as_of), ("cut", cut)) if value is not None]
        if given and end is not None:
            raise PipelineError(f"end and {given[0]} both define the end: leave one of them out")
        if given and not _ISOLATIONS[isolation]:
            raise PipelineError(f"{given[0]} applies only to committed records: omit isolation")
        since, until = timestamps or (None, None)
        numbers = (partitions,) if isinstance(partitions, int) else partitions
        return cls(
            topics=names,
            schema=schema_of(columns, headers=headers),
            start=start,
            end=end,
            as_of_ms=None if as_of is None else _ms_of("as_of", as_of),
            is_cut=cut is not None,
            timestamps=(
                None if since is None else _ms_of("timestamps", since),
                None if until is None else _ms_of("timestamps", until),
            ),
            partitions=None if numbers is None else tuple(sorted(set(numbers))),
            is_committed=_ISOLATIONS[isolation],
        )

    def bounds(self, first_offset: int, end_offset: int) -> Bounds:
        since, until = self.timestamps
        bounds = Bounds(first_offset=first_offset, end_offset=end_offset)
        if since is not None:
            bounds = replace(bounds, min_timestamp=since)
        return bounds if until is None else replace(bounds, max_timestamp=until - 1)


def _ms_of(name: str, time: Time) -> int:
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000)
    if isinstance(time, str):
        try:
            return past_time_of(time, wall_clock_ms())
        except ValueError as error:
            raise PipelineError(f"{name}={time!r}: {error}") from None
    return time


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster to read. If no control plane is known, its metadata comes from the bucket."""

    location: ClusterLocation

    @classmethod
    def of(
        cls,
        *,
        data: str | None = None,
        control: str | None = None,
        store: str | None = None,
        encryption_keys: str | None = None,
        tls: Mapping[str, str | None] | None = None,
    ) -> Self:
        """Returns the cluster that the arguments or environment variables specify. Raises PipelineError."""
        is_bucket_named = bool(store or (not data and os.environ.get(STORE_VARIABLE)))
        return cls(
            find_cluster(
                data=None if data is None else str(data),
                control=control,
                store=store,
                keys=encryption_keys,
                tls=tls or {},
                needs_control=not is_bucket_named,
            )
        )

    @property
    def metadata(self) -> str:
        """The source of the metadata: CONTROL or BUCKET."""
        return CONTROL if self.location.control else BUCKET

    def open(self) -> MetadataSource:
        """Opens the cluster's metadata. Raises PipelineError, ControlPlaneUnavailable, ForeignStoreError."""
        return open_checked(self.location, self.metadata)


def read(
    topics: str | Iterable[str],
    *,
    data: str | None = None,
    control: str | None = None,
    store: str | None = None,
    start: Point | None = None,
    end: Point | None = None,
    as_of: Time | None = None,
    cut: str | None = None,
    timestamps: tuple[Time | None, Time | None] | None = None,
    columns: Iterable[str] | None = None,
    partitions: Iterable[int] | int | None = None,
    headers: bool = False,
    isolation: str = "read_committed",
    encryption_keys: str | None = None,
    tls: Mapping[str, str | None] | None = None,
) -> pa.RecordBatchReader:
    """Reads the committed records of topics, straight from the bucket, as Arrow record batches.

    Specify the cluster by `data`, the data folder of a `lacuna up`; by the control plane (HOST:PORT) and the bucket's
    URL; or by the bucket alone, if `lacuna metadata publish` has stored the metadata there. The defaults are
    LACUNA_DATA, LACUNA_CONTROL and LACUNA_STORE.

    | argument | |
    |---|---|
    | start, end | where to begin and to end in each partition: an offset, a time (a datetime, or text such as
      "2026-11-26T13:00" or "-15m"), "earliest", "latest", "latest-100", or offsets by partition, {0: 12}, and with
      several topics {"orders": {0: 12}}. The record at `end` is not read |
    | as_of | the records that a read_committed consumer could see at this time |
    | cut | "transactions": end where no transaction of any partition or topic is split, now or at `as_of` |
    | timestamps | (since, until): only records with a timestamp in this range, which does not include `until` |
    | columns | names of columns, in this order; headers=True adds the headers |
    | partitions | numbers of partitions |
    | isolation | "read_committed", or "read_uncommitted" to include open and aborted records |
    | encryption_keys, tls | the file with the cluster's keys, and files for TLS to the control plane |

    The reader yields one partition after another, in offset order. It reads while it is consumed, in bounded memory.
    The objects that it needs are kept until it ends or is dropped. `read` raises PipelineError and
    ControlPlaneUnavailable; the reader raises DataLossError and DamagedDataError, which name the object.
    """
    query = Query.of(
        topics,
        start=start,
        end=end,
        as_of=as_of,
        cut=cut,
        timestamps=timestamps,
        columns=columns,
        partitions=partitions,
        headers=headers,
        isolation=isolation,
    )
    source = Source.of(
        data=data, control=control, store=store, encryption_keys=encryption_keys, tls=tls
    )
    return reader_of(source, query)


def reader_of(source: Source, query: Query) -> pa.RecordBatchReader:
    """Plans a read and returns its reader. Raises the same errors as `read`."""
    batches = _batches(source, query)
    next(batches)  # plans the read; ending the generator then releases the pin
    return pa.RecordBatchReader.from_batches(query.schema, batches)


def _batches(source: Source, query: Query) -> Iterator[Any]:
    """Yields None once the read is planned and its objects are pinned, and then the record batches."""
    with ExitStack() as stack:
        metadata = stack.enter_context(closing(source.open()))
        hold = stack.enter_context(hold_of(metadata))
        spans = spans_of(source, metadata, query)
        yield None
        yield from batches_of(source, metadata.cluster_id, spans, query, hold)


def batches_of(
    source: Source, cluster_id: str, spans: Sequence[Span], query: Query, hold: ReadHold | None
) -> Generator[pa.RecordBatch]:
    """Yields the records of the spans. Does not report an object as lost if it is missing because the hold was lost."""
    try:
        store = shared_store(source.location.store)
        yield from record_batches(store, cluster_id, spans, query.schema)
    except DataLossError:
        if hold is not None:
            hold.confirm()
        raise


def hold_of(metadata: MetadataSource) -> AbstractContextManager[ReadHold | None]:
    """Pins all live objects until the context ends. Metadata from the bucket cannot be pinned."""
    return ReadHold(metadata) if isinstance(metadata, JobClient) else nullcontext()


def spans_of(source: Source, metadata: MetadataSource, query: Query) -> list[Span]:
    """Returns the spans to read. Raises PipelineError for a missing partition, DataLossError for missing records."""
    parts = parts_of(metadata, query)
    keys = [part.key for part in parts]
    # Requested before the logs are read, which therefore reach at least as far.
    ends = _ends_of(metadata, parts, query)
    logs = metadata.readable_logs(keys, source.location.store, is_committed=query.is_committed)
    resolver = Resolver(source, metadata.cluster_id, query)
    return [
        resolver.span(part, log, ends.get(part.key)) for part, log in zip(parts, logs, strict=True)
    ]


def parts_of(metadata: MetadataSource, query: Query) -> list[Part]:
    """Returns the partitions to read, in order. Raises PipelineError if one does not exist."""
    topics = metadata.topics()
    found = []
    for name in query.topics:
        topic = topics.get(name)
        if topic is None:
            raise PipelineError(no_topic(name, topics, metadata.whose))
        found += [Part(name, number, (topic.topic_id, number)) for number in _numbers(topic, query)]
    return found


def no_topic(name: str, topics: Iterable[str], whose: str) -> str:
    """Returns the error for a topic that does not exist, which suggests the one with the most similar name."""
    near = get_close_matches(name, list(topics), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`lacuna topics list` shows the topics"
    return f"there is no topic {name!r}{whose}: {hint}"


def _numbers(topic: Topic, query: Query) -> Sequence[int]:
    if query.partitions is None:
        return range(topic.partition_count)
    for number in query.partitions:
        if not 0 <= number < topic.partition_count:
            raise PipelineError(
                f"there is no partition {number} of topic {topic.name!r}: it has partitions 0 to "
                f"{topic.partition_count - 1}"
            )
    return query.partitions


def _ends_of(
    metadata: MetadataSource, parts: Sequence[Part], query: Query
) -> Mapping[PartitionKey, int]:
    """Returns the partitions' ends at the query's past time, in a cut, or both; empty if it specifies neither."""
    if query.as_of_ms is not None:
        return _past_ends(metadata, parts, query.as_of_ms, is_cut=query.is_cut)
    return cut_ends(metadata, parts) if query.is_cut else {}


def cut_ends(metadata: MetadataSource, parts: Sequence[Part]) -> Mapping[PartitionKey, int]:
    """Returns the largest ends of the partitions that split no transaction."""
    cut = metadata.cut([part.key for part in parts])
    return {key: each.end_offset for key, each in cut.partitions.items()}


def _past_ends(
    metadata: MetadataSource, parts: Sequence[Part], at_ms: int, *, is_cut: bool
) -> Mapping[PartitionKey, int]:
    past = metadata.as_of([part.key for part in parts], at_ms, is_cut=is_cut)
    if not past.is_known:
        names = ", ".join(dict.fromkeys(part.topic for part in parts))
        raise PipelineError(f"as_of: {not_known(names, past.known_from_ms)}")
    if past.as_of_ms // 1000 < at_ms // 1000:
        _log.warning(
            "as_of: that time is not known; reading what was visible at %s, the last known time before it",
            show_time(past.as_of_ms),
        )
    return {key: then.end_offset for key, then in past.partitions.items()}


@dataclass(frozen=True, slots=True)
class Resolver:
    source: Source
    cluster_id: str
    query: Query

    def span(
        self, part: Part, log: PartitionLog, end: int | None, first: int | None = None
    ) -> Span:
        """Returns the span to read in a partition. A missing `first` or `end` comes from the query."""
        query = self.query
        latest = log.end_offset(is_committed=query.is_committed)
        if first is None:
            first = self._offset(part, log, query.start, log.log_start_offset, "start")
        if end is None:
            end = self._offset(part, log, query.end, latest, "end")
        if first < log.log_start_offset:
            raise DataLossError(
                f"{part} begins at offset {log.log_start_offset}, but offset {first} was requested: retention or "
                "DeleteRecords has deleted the records in between; start at 'earliest' to read the rest"
            )
        if max(first, end) > latest:
            raise PipelineError(
                f"{part} ends at offset {latest}, but offset {max(first, end)} was requested: wait until it is "
                "committed, or request an earlier one"
            )
        return Span(log, query.bounds(first, max(first, end)), query.is_committed)

    def _offset(
        self, part: Part, log: PartitionLog, point: Point | None, default: int, name: str
    ) -> int:
        latest = log.end_offset(is_committed=self.query.is_committed)
        if isinstance(point, Mapping):
            offset = _given(part, point, self.query, name)
            return default if offset is None else offset
        if point is None:
            return default
        if isinstance(point, str) and (edge := _EDGE.fullmatch(point)):
            if edge["before"] is None:
                return log.log_start_offset if point == "earliest" else latest
            return max(latest - int(edge["before"]), log.log_start_offset)
        if isinstance(point, int):
            if point < 0:
                raise PipelineError(f"{name}={point}: an offset cannot be negative")
            return point
        found = first_offset_since(
            log,
            shared_store(self.source.location.store),
            self.cluster_id,
            _ms_of(name, point),
            is_committed=self.query.is_committed,
        )
        return latest if found is None else found


def _given(part: Part, offsets: Mapping[Any, Any], query: Query, name: str) -> int | None:
    """Looks up a partition's offset in a mapping by partition, or by topic and partition. JSON keys are text."""
    of_topic = offsets.get(part.topic)
    if isinstance(of_topic, Mapping):
        offsets = of_topic
    elif len(query.topics) > 1:
        return None
    found = offsets.get(part.number, offsets.get(str(part.number)))
    if found is not None and (not isinstance(found, int) or found < 0):
        raise PipelineError(f"{name}: {found!r} for {part} is not an offset")
    return found
