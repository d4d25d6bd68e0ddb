"""Lists a bucket's objects, and classifies the segments that nothing refers to."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import FilterUncommitted
from lacuna.controlplane.v1.log_pb2 import SegmentId as SegmentMessage
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.segments import (
    InvalidPathError,
    JournalEnd,
    LaterSegment,
    SegmentId,
    find_later,
    parse_metadata_key,
    parse_segment_key,
    segment_key,
)
from lacuna.logstore.segments.hot import lease_of
from lacuna.logstore.segments.paths import (
    CLUSTER_MARKER_KEY,
    MAX_SEQUENCE,
    is_encryption_key,
    is_journal_key,
    is_probe_key,
)
from lacuna.pipeline.audit.findings import Finding, Findings, Kind
from lacuna.pipeline.audit.tables import Rows
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.stores import has_object

_ASKED_AT_ONCE: Final = 10_000
#: The size of an object that is missing from the listing, because it was written later.
UNKNOWN_SIZE: Final = -1


class Segments:
    """A compact list of segments and their sizes, grouped by lease. It takes 16 bytes per segment."""

    def __init__(self) -> None:
        self._leases: dict[int, tuple[array[int], array[int]]] = {}

    def add(self, segment: SegmentId, size: int) -> None:
        """Adds a segment of `size` bytes. Within a lease, segments must be added in sequence order."""
        sequences, sizes = self._leases.setdefault(segment.lease_id, (array("q"), array("q")))
        sequences.append(segment.sequence)
        sizes.append(size)

    def __bool__(self) -> bool:
        return bool(self._leases)

    def __iter__(self) -> Iterator[tuple[SegmentId, int]]:
        for lease_id in sorted(self._leases):
            for sequence, size in zip(*self._leases[lease_id], strict=True):
                yield SegmentId(lease_id, sequence), size

    def size_of(self, lease_id: int, sequence: int) -> int:
        """Returns the size of a segment in bytes, or UNKNOWN_SIZE if it was not listed."""
        sequences, sizes = self._leases.get(lease_id, ((), ()))
        index = bisect_left(sequences, sequence)
        is_there = index < len(sequences) and sequences[index] == sequence
        return sizes[index] if is_there else UNKNOWN_SIZE


#: The other keys of a cluster's objects.
_OTHER_KEYS: Final = (is_journal_key, is_encryption_key, is_probe_key)


@dataclass(slots=True)
class Inventory:
    """A listing of a bucket. `objects` and `bytes` count everything; `metadata` lists metadata snapshot keys."""

    segments: Segments = field(default_factory=Segments)
    metadata: list[str] = field(default_factory=list)
    has_marker: bool = False
    objects: int = 0
    bytes: int = 0
    findings: Findings = field(default_factory=Findings)


def take_inventory(store: ObjectStore, cluster_id: str) -> Inventory:
    """Lists the whole bucket, and reports objects whose keys do not belong to this cluster."""
    inventory = Inventory()
    for info in store.list():
        inventory.objects += 1
        inventory.bytes += info.size
        if info.key == CLUSTER_MARKER_KEY:
            inventory.has_marker = True
            continue
        segment = _parse(info.key, cluster_id)
        if segment is not None:
            inventory.segments.add(segment, info.size)
        elif _is_metadata(info.key, cluster_id):
            inventory.metadata.append(info.key)
        elif not any(is_known(info.key) for is_known in _OTHER_KEYS):
            inventory.findings.add(_foreign(info.key, info.size))
    return inventory


def _parse(key: str, cluster_id: str) -> SegmentId | None:
    try:
        found, segment = parse_segment_key(key)
    except InvalidPathError:
        return None
    return segment if found == cluster_id else None


def _is_metadata(key: str, cluster_id: str) -> bool:
    try:
        return parse_metadata_key(key)[0] == cluster_id
    except InvalidPathError:
        return False


def _foreign(key: str, size: int) -> Finding:
    reason = "no object of this cluster has such a key"
    with suppress(InvalidPathError):
        reason = f"a segment of another cluster, {parse_segment_key(key)[0]}"
    return Finding(kind=Kind.FOREIGN, reason=reason, key=key, position=0, size=size)


class Unreferenced(NamedTuple):
    """The number of segments without an extent, by their state in the control plane.

    `garbage` segments were never committed and never will be; they total `garbage_bytes`. `replaced` segments await
    collection. Segments `of_the_living` have a lease that has not ended: they are still being written, were replaced,
    or could not be committed.
    """

    garbage: int = 0
    garbage_bytes: int = 0
    replaced: int = 0
    of_the_living: int = 0


def unreferenced_of(inventory: Inventory, table: Rows) -> list[tuple[SegmentId, int]]:
    """Returns the listed segments that have no extent in the table, with their sizes in bytes."""
    used = (SegmentId(*segment) for segment, _ in table.objects())
    next_used = next(used, None)
    left = []
    for segment, size in inventory.segments:
        while next_used is not None and next_used < segment:
            next_used = next(used, None)
        if segment != next_used:
            left.append((segment, size))
    return left


def judge_unreferenced(
    control: JobClient,
    store: ObjectStore,
    left: Sequence[tuple[SegmentId, int]],
    cluster_id: str,
    findings: Findings,
) -> Unreferenced:
    """Counts the unreferenced segments by state. Adds findings for garbage and for segments written after the journal's
    end.

    Must be called after the extents have been read. The control plane then knows every segment that was committed in
    the meantime, so none of these is mistaken for garbage.
    """
    sizes = dict(left)
    unknown = sorted(_uncommitted(control, sizes))
    # A segment that was replaced long ago may have been collected and forgotten since the listing.
    strays = [each for each in unknown if has_object(store, segment_key(cluster_id, each))]
    for segment in strays:
        reason = "it was written but never committed, and its writer is gone"
        key, size = segment_key(cluster_id, segment), sizes[segment]
        findings.add(Finding(kind=Kind.GARBAGE, reason=reason, key=key, position=0, size=size))
    rest = sizes.keys() - set(unknown)
    ended = _ended_leases(control, {segment.lease_id for segment in rest})
    known = [segment for segment in rest if segment.lease_id in ended]
    open_ones = [segment for segment in rest if segment.lease_id not in ended]
    _compare(control, store, open_ones, cluster_id, findings)
    return Unreferenced(
        len(strays), sum(sizes[each] for each in strays), len(known), len(open_ones)
    )


def _uncommitted(control: JobClient, segments: Iterable[SegmentId]) -> Iterator[SegmentId]:
    left = iter(segments)
    while asked := list(islice(left, _ASKED_AT_ONCE)):
        messages = [
            SegmentMessage(lease_id=each.lease_id, sequence=each.sequence) for each in asked
        ]
        reply = control.call(Command(filter_uncommitted=FilterUncommitted(segments=messages)))
        for found in reply.uncommitted_filtered.segments:
            yield SegmentId(found.lease_id, found.sequence)


def _ended_leases(control: JobClient, lease_ids: Iterable[int]) -> set[int]:
    """Returns the leases that have ended. The control plane reports unknown segments as unknown only for these."""
    probes = (SegmentId(lease_id, MAX_SEQUENCE) for lease_id in lease_ids)
    return {found.lease_id for found in _uncommitted(control, probes)}


def _compare(
    control: JobClient,
    store: ObjectStore,
    segments: Iterable[SegmentId],
    cluster_id: str,
    findings: Findings,
) -> None:
    """Adds a finding for each segment whose lease or journal position is beyond the end of the journal."""
    end = control.journal_end()
    found = [
        LaterSegment(
            segment_key(cluster_id, each), SegmentId(lease_of(each.lease_id), each.sequence), 0
        )
        for each in segments
    ]
    newest = find_later(store, cluster_id, end)
    if newest is not None:
        found = [newest, *(each for each in found if each.key != newest.key)]
    now = control.journal_end()  # agents have kept writing in the meantime
    for segment in found:
        if now.is_before(segment):
            findings.add(_future(segment, now))


def _future(segment: LaterSegment, end: JournalEnd) -> Finding:
    lease_id = segment.segment_id.lease_id
    reason = f"lease {lease_id:x} was never issued; {end.next_lease_id:x} is the next one"
    if lease_id < end.next_lease_id:
        reason = (
            f"it was written when the journal was at position {segment.journal_position}, but the "
            f"journal is now at {end.position}"
        )
    return Finding(kind=Kind.FUTURE, reason=reason, key=segment.key)
