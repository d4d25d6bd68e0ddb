"""The work of a task: reads whole objects range by range, and compares them with their extents."""

import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from lacuna.logstore.objects import (
    DamagedObjectError,
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    ShortReadError,
)
from lacuna.logstore.objects.cells import CELL_SIZE
from lacuna.logstore.segments import SegmentId, segment_key
from lacuna.logstore.segments.audit import READ_BYTES, audit_batches, audit_segment
from lacuna.logstore.segments.hot import is_hot
from lacuna.pipeline.audit.findings import Finding, Findings, Hit, Kind
from lacuna.pipeline.audit.inventory import UNKNOWN_SIZE
from lacuna.pipeline.audit.matching import Counts, Matcher, PartitionName
from lacuna.pipeline.audit.tables import ExtentRow, Rows, bounds_of
from lacuna.pipeline.errors import PipelineError

#: Objects up to this size are read ahead as a whole, at most _MOST_AHEAD at a time.
_SMALL_BYTES: Final = 1 << 20
_MOST_AHEAD: Final = 16


@dataclass(frozen=True, slots=True)
class ObjectTask:
    """The segments to check, as (lease id, sequence, size in bytes), and their extents.

    The extents of segment i are rows[firsts[i]:firsts[i + 1]], in order of position; an unreferenced segment has none.
    `names` maps the rows' partition indexes to partitions.
    """

    segments: Sequence[tuple[int, int, int]]
    firsts: Sequence[int]
    rows: Rows
    names: Mapping[int, PartitionName]

    @property
    def size(self) -> int:
        """The number of bytes to read, not counting segments of unknown size."""
        return sum(max(size, 0) for _, _, size in self.segments)

    def rows_of(self, index: int) -> list[ExtentRow]:
        return list(self.rows[self.firsts[index] : self.firsts[index + 1]])


@dataclass(slots=True)
class TaskResult:
    """A task's findings. `unreferenced_bytes` is the size of batches outside extents; see `Matcher` for `sparse`."""

    objects: int = 0
    bytes_read: int = 0
    unreferenced_bytes: int = 0
    seconds: float = 0.0
    counts: dict[int, Counts] = field(default_factory=dict)
    sparse: "array[int]" = field(default_factory=lambda: array("q"))
    findings: Findings = field(default_factory=Findings)

    def add(self, other: "TaskResult") -> None:
        self.objects += other.objects
        self.bytes_read += other.bytes_read
        self.unreferenced_bytes += other.unreferenced_bytes
        self.seconds += other.seconds
        self.findings.add_all(other.findings)
        self.sparse.extend(other.sparse)
        self.add_counts(other.counts)

    def add_counts(self, others: Mapping[int, Counts]) -> None:
        for index, counts in others.items():
            self.counts.setdefault(index, Counts()).add(counts)


def check_objects(
    store: ObjectStore, cluster_id: str, task: ObjectTask, *, reads_records: bool = True
) -> TaskResult:
    """Reads and checks every object of a task. Raises PipelineError if the store fails."""
    result = TaskResult()
    begin = time.perf_counter()
    keys = [
        segment_key(cluster_id, SegmentId(lease_id, sequence))
        for lease_id, sequence, _ in task.segments
    ]
    sizes = [size for _, _, size in task.segments]
    for index, coming in enumerate(_read_ahead(store, keys, sizes)):
        rows = task.rows_of(index)
        key = keys[index]
        try:
            whole = None if coming is None else coming.result()
            _check_object(store, key, sizes[index], whole, rows, task.names, result, reads_records)
        except ObjectNotFoundError:
            # If it has extents, it is pinned, so it has been lost. Otherwise, it may have been collected.
            if rows:
                result.findings.add(_missing(key, rows, task.names))
        except ShortReadError as error:
            reason = f"only {error.available} bytes of it exist"
            result.findings.add(
                Finding(
                    kind=Kind.TRUNCATED,
                    reason=reason,
                    key=error.key,
                    position=error.position,
                    size=error.size,
                    hits=_hits(rows, task.names),
                )
            )
        except DamagedObjectError:
            result.findings.extend(_undecryptable(store, key, sizes[index], rows, task.names))
        except ObjectStoreError as error:
            raise PipelineError(f"object {key!r} could not be read: {error}") from error
        result.objects += 1
    result.seconds = time.perf_counter() - begin
    return result


def check_listed(store: ObjectStore, cluster_id: str, task: ObjectTask) -> Findings:
    """Reports objects that are missing or too short, without reading any. Raises PipelineError if the store fails."""
    findings = Findings()
    for index, (lease_id, sequence, listed) in enumerate(task.segments):
        rows = task.rows_of(index)
        if not rows:
            continue
        key = segment_key(cluster_id, SegmentId(lease_id, sequence))
        try:
            size = store.size(key) if listed == UNKNOWN_SIZE else listed
        except ObjectNotFoundError:
            findings.add(_missing(key, rows, task.names))
            continue
        except ObjectStoreError as error:
            raise PipelineError(f"object {key!r} could not be examined: {error}") from error
        if beyond := [row for row in rows if row.end > size]:
            findings.add(_beyond(key, size, beyond, task.names))
    return findings


def _read_ahead(
    store: ObjectStore, keys: Sequence[str], sizes: Sequence[int]
) -> Iterator[Future[bytearray] | None]:
    """Yields, for each object, a future for its bytes, or None if it is too large to read ahead."""
    at_once = max(1, min(store.reads_at_once, _MOST_AHEAD))
    coming: deque[Future[bytearray] | None] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="audit") as executor:
        for key, size in zip(keys, sizes, strict=True):
            is_small = 0 < size <= _SMALL_BYTES
            coming.append(executor.submit(store.get, key, 0, size) if is_small else None)
            if len(coming) > at_once:
                yield coming.popleft()
        yield from coming


def _check_object(
    store: ObjectStore,
    key: str,
    size: int,
    whole: bytearray | None,
    rows: Sequence[ExtentRow],
    names: Mapping[int, PartitionName],
    result: TaskResult,
    reads_records: bool,
) -> None:
    size = store.size(key) if size == UNKNOWN_SIZE else size
    if beyond := [row for row in rows if row.end > size]:
        result.findings.add(_beyond(key, size, beyond, names))
        rows = [row for row in rows if row.end <= size]
    matcher = Matcher(key, rows, names, result.findings)
    has_footer = False
    for part in audit_segment(store, key, size, reads_records=reads_records, whole=whole):
        has_footer = has_footer or part.footer is not None
        matcher.add(part, is_payload=part.found is not None)
    if not has_footer:
        for position, length in _ranges(rows):
            part = audit_batches(store, key, position, length, reads_records=reads_records)
            matcher.add(part, is_payload=True)
    matcher.finish()
    result.bytes_read += size
    result.unreferenced_bytes += matcher.unreferenced_bytes
    result.sparse.extend(matcher.sparse)
    result.add_counts(matcher.counts)


def _ranges(rows: Iterable[ExtentRow]) -> Iterator[tuple[int, int]]:
    """Yields the extents as (position, size), joining neighbours up to READ_BYTES."""
    begin = end = -1
    for row in rows:
        position, size = row.position, row.size
        if position == end and end + size - begin <= READ_BYTES:
            end += size
            continue
        if position < end:  # it overlaps the previous one, which Matcher reports
            continue
        if begin >= 0:
            yield begin, end - begin
        begin, end = position, position + size
    if begin >= 0:
        yield begin, end - begin


def _hits(rows: Iterable[ExtentRow], names: Mapping[int, PartitionName]) -> tuple[Hit, ...]:
    return tuple(
        Hit(names[index].topic, names[index].partition, first, end)
        for index, first, end in bounds_of(rows)
    )


def _missing(key: str, rows: Sequence[ExtentRow], names: Mapping[int, PartitionName]) -> Finding:
    where = "not in the bucket"
    if is_hot(rows[0].lease_id):
        where = "neither in the bucket nor intact in the control plane's journal"
    reason = f"it is {where}, but {len(rows)} extents refer to it"
    return Finding(kind=Kind.MISSING, reason=reason, key=key, hits=_hits(rows, names))


def _undecryptable(
    store: ObjectStore,
    key: str,
    size: int,
    rows: Sequence[ExtentRow],
    names: Mapping[int, PartitionName],
) -> Iterator[Finding]:
    """Reports the unreadable cells of an encrypted object. The contents of other cells are not checked."""
    for position in range(0, max(size, 1), CELL_SIZE):
        length = max(min(CELL_SIZE, size - position), 1)
        try:
            store.get(key, position, length)
        except DamagedObjectError as error:
            end = position + length
            hit = [row for row in rows if row.position < end and position < row.end]
            yield Finding(
                kind=Kind.DAMAGE,
                reason=error.reason,
                key=key,
                position=position,
                size=length,
                hits=_hits(hit, names),
            )


def _beyond(
    key: str, object_size: int, rows: Sequence[ExtentRow], names: Mapping[int, PartitionName]
) -> Finding:
    begin = rows[0].position
    return Finding(
        kind=Kind.TRUNCATED,
        reason=f"it ends at {object_size}, but {len(rows)} extents extend beyond that",
        key=key,
        position=begin,
        size=rows[-1].end - begin,
        hits=_hits(rows, names),
    )
