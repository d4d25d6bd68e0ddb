"""What a task does: read objects whole, in ranges, and compare them with their extents."""

import time
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from logstore.objects import ObjectNotFoundError, ObjectStore, ObjectStoreError, ShortReadError
from logstore.segments import SegmentId, segment_key
from logstore.segments.audit import READ_BYTES, audit_batches, audit_segment
from pipeline.audit.findings import Finding, Findings, Hit, Kind
from pipeline.audit.matching import Counts, Matcher, PartitionName
from pipeline.audit.tables import Rows
from pipeline.errors import PipelineError

#: Objects up to this size are read whole before it is their turn, so many of them at most.
_SMALL_BYTES: Final = 1 << 20
_MOST_AHEAD: Final = 16
#: A size that is not known from the listing: the object came after it.
UNKNOWN_SIZE: Final = -1


@dataclass(frozen=True, slots=True)
class ObjectTask:
    """Segments to check, as (lease id, sequence, size in bytes), and the extents of each.

    Those of the object i are rows[firsts[i]:firsts[i + 1]], in order of position, none where nothing
    refers to it. `names` says of each partition index in the rows which it is.
    """

    segments: Sequence[tuple[int, int, int]]
    firsts: Sequence[int]
    rows: Rows
    names: Mapping[int, PartitionName]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(max(size, 0) for _, _, size in self.segments)


@dataclass(slots=True)
class TaskResult:
    """What a task found. `unreferenced_bytes` are batches in no extent; `sparse` as in `Matcher`."""

    objects: int = 0
    bytes_read: int = 0
    unreferenced_bytes: int = 0
    seconds: float = 0.0
    counts: dict[int, Counts] = field(default_factory=dict)
    sparse: "array[int]" = field(default_factory=lambda: array("q"))
    findings: Findings = field(default_factory=Findings)

    def add(self, other: "TaskResult") -> None:
        """Adds what another task found."""
        self.objects += other.objects
        self.bytes_read += other.bytes_read
        self.unreferenced_bytes += other.unreferenced_bytes
        self.seconds += other.seconds
        self.findings.add_all(other.findings)
        self.sparse.extend(other.sparse)
        for index, counts in other.counts.items():
            self.counts.setdefault(index, Counts.empty()).add(counts)


def check_objects(
    store: ObjectStore, cluster_id: str, task: ObjectTask, *, reads_records: bool = True
) -> TaskResult:
    """Checks every object of a task. Raises PipelineError where the store fails."""
    result = TaskResult()
    begin = time.perf_counter()
    keys = [
        segment_key(cluster_id, SegmentId(lease_id, sequence))
        for lease_id, sequence, _ in task.segments
    ]
    sizes = [size for _, _, size in task.segments]
    for index, coming in enumerate(_read_ahead(store, keys, sizes)):
        rows = task.rows[task.firsts[index] : task.firsts[index + 1]]
        key = keys[index]
        try:
            whole = None if coming is None else coming.result()
            _check_object(store, key, sizes[index], whole, rows, task.names, result, reads_records)
        except ObjectNotFoundError:
            if len(rows):  # pinned: it may not go; what nothing refers to may be collected any time
                result.findings.add(_missing(key, rows, task.names))
        except ShortReadError as error:
            result.findings.add(_short(error, rows, task.names))
        except ObjectStoreError as error:
            raise PipelineError(f"object {key!r} could not be read: {error}") from error
        result.objects += 1
    result.seconds = time.perf_counter() - begin
    return result


def check_listed(store: ObjectStore, cluster_id: str, task: ObjectTask) -> Findings:
    """Whether a task's objects are there and long enough for their extents; none is read.

    Raises PipelineError where the store fails.
    """
    findings = Findings()
    for index, (lease_id, sequence, listed) in enumerate(task.segments):
        rows = task.rows[task.firsts[index] : task.firsts[index + 1]]
        if not len(rows):
            continue
        key = segment_key(cluster_id, SegmentId(lease_id, sequence))
        try:
            size = store.size(key) if listed == UNKNOWN_SIZE else listed
        except ObjectNotFoundError:
            findings.add(_missing(key, rows, task.names))
            continue
        except ObjectStoreError as error:
            raise PipelineError(f"object {key!r} could not be looked at: {error}") from error
        is_beyond = rows["position"] + rows["size"] > size
        if is_beyond.any():
            findings.add(_beyond(key, size, rows[is_beyond], task.names))
    return findings


def _read_ahead(
    store: ObjectStore, keys: Sequence[str], sizes: Sequence[int]
) -> Iterator[Future[bytearray] | None]:
    """For each object its bytes, which come while others are checked; None for a large one."""
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
    rows: Rows,
    names: Mapping[int, PartitionName],
    result: TaskResult,
    reads_records: bool,
) -> None:
    size = store.size(key) if size == UNKNOWN_SIZE else size
    is_beyond = rows["position"] + rows["size"] > size
    if is_beyond.any():
        result.findings.add(_beyond(key, size, rows[is_beyond], names))
    rows = rows[~is_beyond]
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
    for index, counts in matcher.counts.items():
        result.counts.setdefault(index, Counts.empty()).add(counts)


def _ranges(rows: Rows) -> Iterator[tuple[int, int]]:
    """The extents, neighbours joined while that is not too much at once."""
    begin = end = -1
    for position, size in zip(rows["position"].tolist(), rows["size"].tolist(), strict=True):
        if position == end and end + size - begin <= READ_BYTES:
            end += size
            continue
        if position < end:  # shares bytes with the one before, which is told elsewhere
            continue
        if begin >= 0:
            yield begin, end - begin
        begin, end = position, position + size
    if begin >= 0:
        yield begin, end - begin


def _hits(rows: Rows, names: Mapping[int, PartitionName]) -> tuple[Hit, ...]:
    found = []
    for index in np.unique(rows["partition"]).tolist():
        own, name = rows[rows["partition"] == index], names[index]
        first, end = int(own["base_offset"].min()), int(own["next_offset"].max())
        found.append(Hit(name.topic, name.partition, first, end))
    return tuple(found)


def _missing(key: str, rows: Rows, names: Mapping[int, PartitionName]) -> Finding:
    return Finding(
        kind=Kind.MISSING,
        reason=f"it is not in the bucket, and {len(rows)} extents lie in it",
        key=key,
        hits=_hits(rows, names),
    )


def _short(error: ShortReadError, rows: Rows, names: Mapping[int, PartitionName]) -> Finding:
    return Finding(
        kind=Kind.TRUNCATED,
        reason=f"{error.available} of the bytes are there",
        key=error.key,
        position=error.position,
        size=error.size,
        hits=_hits(rows, names),
    )


def _beyond(key: str, object_size: int, rows: Rows, names: Mapping[int, PartitionName]) -> Finding:
    """Extents that lie behind the end of their object."""
    first, last = rows[0], rows[-1]
    begin = int(first["position"])
    return Finding(
        kind=Kind.TRUNCATED,
        reason=f"it ends at {object_size}, and {len(rows)} extents go on behind that",
        key=key,
        position=begin,
        size=int(last["position"] + last["size"]) - begin,
        hits=_hits(rows, names),
    )
