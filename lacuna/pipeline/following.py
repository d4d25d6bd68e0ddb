"""`lacuna.follow`: yields records as Arrow as they are committed, in complete transactions (docs/arrow.md)."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Final

import pyarrow as pa

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.datasource.connection import Connection
from lacuna.pipeline.errors import DataLossError, PipelineError
from lacuna.pipeline.holding import ReadHold
from lacuna.pipeline.metadata import MetadataSource
from lacuna.pipeline.reading import (
    Part,
    Point,
    Query,
    Resolver,
    Source,
    batches_of,
    cut_ends,
    hold_of,
    parts_of,
)
from lacuna.pipeline.record_batches import Span

#: Seconds without a new record after which to look for new partitions.
_LONGEST_WAIT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Step:
    """The records committed since the previous step, from complete transactions or outside any transaction.

    They must be read before the next step is requested. A step can be passed to anything that accepts an Arrow C
    stream, such as `pyarrow.table(step)` or `polars.DataFrame(step)`. To continue after this step later, store `end`
    together with your results, and pass it as `start`.
    """

    reader: pa.RecordBatchReader
    end: Mapping[str, Mapping[int, int]]

    def read_all(self) -> pa.Table:
        return self.reader.read_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.reader)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


def follow(
    topics: str | Iterable[str],
    *,
    data: str | None = None,
    control: str | None = None,
    store: str | None = None,
    start: Point | None = None,
    every: float = 1.0,
    columns: Iterable[str] | None = None,
    partitions: Iterable[int] | int | None = None,
    headers: bool = False,
    encryption_keys: str | None = None,
    tls: Mapping[str, str | None] | None = None,
) -> Iterator[Step]:
    """Yields the committed records of topics, and continues indefinitely with new ones, in steps.

    Across all partitions and topics that are followed, no step splits a transaction. An open transaction can delay
    steps, but no longer than its timeout. Steps are at least `every` seconds apart. The other arguments and the errors
    are the same as for `lacuna.read`. If the control plane is unreachable, `follow` waits up to two minutes for it. If
    only the bucket is given, each step contains the records that a newer metadata snapshot adds.
    """
    query = Query.of(topics, start=start, columns=columns, partitions=partitions, headers=headers)
    if every <= 0:
        raise PipelineError(f"every={every}: specify a number of seconds above 0")
    source = Source.of(
        data=data, control=control, store=store, encryption_keys=encryption_keys, tls=tls
    )
    follower = _Follower(source, query, every)
    steps = follower.steps()
    next(steps)  # determines the start, so that errors are raised here
    return (step for step in steps if step is not None)


class _Follower:
    def __init__(self, source: Source, query: Query, every: float) -> None:
        self._source = source
        self._query = query
        self._every = every
        self._connection = Connection(lambda: source.location, source.metadata)
        self._reached: dict[PartitionKey, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._pause = Event()

    def steps(self) -> Iterator[Step | None]:
        """Yields None once the starting offsets are known, and then the steps."""
        with closing(self._connection):
            self._connection.use(self._begin)
            yield None
            while True:
                began = time.monotonic()
                yield from self._step()
                self._pause.wait(max(0.0, began + self._every - time.monotonic()))
                self._connection.use(self._wait)

    def _begin(self, metadata: MetadataSource) -> None:
        query = self._query
        parts = parts_of(metadata, query)
        ends = cut_ends(metadata, parts) if query.start == "latest" else {}
        logs = metadata.partition_logs([part.key for part in parts])
        resolver = Resolver(self._source, metadata.cluster_id, query)
        for part, log in zip(parts, logs, strict=True):
            span = resolver.span(part, log, None, ends.get(part.key))
            self._reached[part.key] = span.bounds.first_offset

    def _step(self) -> Iterator[Step]:
        with ExitStack() as stack:
            use = self._connection.use
            parts, spans, cluster_id, hold = use(partial(self._plan, stack))
            if any(True for span in spans for _ in span.pieces()):
                batches = batches_of(self._source, cluster_id, spans, self._query, hold)
                is_over = Event()
                guarded = _until(is_over, batches)
                reader = pa.RecordBatchReader.from_batches(self._query.schema, guarded)
                stack.callback(batches.close)
                stack.callback(is_over.set)
                yield Step(reader, _position(parts, spans))
            for part, span in zip(parts, spans, strict=True):
                self._reached[part.key] = span.bounds.end_offset

    def _plan(
        self, stack: ExitStack, metadata: MetadataSource
    ) -> tuple[list[Part], list[Span], str, ReadHold | None]:
        """Plans the next records of each partition, and pins their objects until `stack` is closed."""
        parts = parts_of(metadata, self._query)
        self._check(parts)
        hold = stack.enter_context(hold_of(metadata))
        # Requested before the logs are read, which therefore reach at least as far.
        ends = cut_ends(metadata, parts)
        logs = metadata.readable_logs([part.key for part in parts], self._source.location.store)
        resolver = Resolver(self._source, metadata.cluster_id, self._query)
        spans = []
        for part, log in zip(parts, logs, strict=True):
            first = self._reached.get(part.key, log.log_start_offset)
            spans.append(resolver.span(part, log, max(first, ends[part.key]), first))
        return parts, spans, metadata.cluster_id, hold

    def _check(self, parts: Iterable[Part]) -> None:
        """Raises DataLossError if a topic was recreated, because its offsets then refer to different records."""
        for part in parts:
            if self._topic_ids.setdefault(part.topic, part.key[0]) != part.key[0]:
                raise DataLossError(
                    f"topic {part.topic!r} was deleted and recreated: follow it again from its beginning"
                )

    def _wait(self, metadata: MetadataSource) -> None:
        if isinstance(metadata, JobClient):
            metadata.await_stable(self._reached, _LONGEST_WAIT)


def _until(is_over: Event, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches. Raises PipelineError once `is_over` is set, since the objects are then no longer pinned."""
    while True:
        if is_over.is_set():
            raise PipelineError(
                "this step of lacuna.follow is over: read each step before you request the next one"
            )
        batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _position(parts: Iterable[Part], spans: Iterable[Span]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for part, span in zip(parts, spans, strict=True):
        found.setdefault(part.topic, {})[part.number] = span.bounds.end_offset
    return found
