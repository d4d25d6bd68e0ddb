"""What is in a bucket, object by object, and what becomes of those that nothing refers to."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from controlplane.v1.cluster_pb2 import OpenLease, ReleaseLease
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import FilterUncommitted
from controlplane.v1.log_pb2 import SegmentId as SegmentMessage
from logstore.objects import ObjectNotFoundError, ObjectStore
from logstore.segments import (
    InvalidPathError,
    SegmentId,
    parse_metadata_key,
    parse_segment_key,
    segment_key,
)
from logstore.segments.paths import CLUSTER_MARKER_KEY, MAX_SEQUENCE
from pipeline.audit.findings import Finding, Findings, Kind
from pipeline.audit.tables import Column, Rows
from pipeline.control import ControlPlane

_ASKED_AT_ONCE: Final = 10_000
_PROBE_LEASE_MS: Final = 1_000

Segments = np.dtype([("lease_id", "i8"), ("sequence", "i8"), ("size", "i8")])


class MetadataObject(NamedTuple):
    """An object of a metadata snapshot."""

    key: str
    size: int


@dataclass(slots=True)
class Inventory:
    """One listing of a bucket. `segments` have the dtype `Segments`, ordered by id; sizes in bytes."""

    segments: Rows
    metadata: list[MetadataObject] = field(default_factory=list)
    has_marker: bool = False
    objects: int = 0
    bytes: int = 0
    findings: Findings = field(default_factory=Findings)


def take_inventory(store: ObjectStore, cluster_id: str) -> Inventory:
    """Lists the whole bucket. Keys that are not of this cluster are findings."""
    lease_ids, sequences, sizes = array("q"), array("q"), array("q")
    inventory = Inventory(np.empty(0, Segments))
    for info in store.list():
        inventory.objects += 1
        inventory.bytes += info.size
        if info.key == CLUSTER_MARKER_KEY:
            inventory.has_marker = True
            continue
        segment = _parse(info.key, cluster_id)
        if segment is not None:
            lease_ids.append(segment.lease_id)
            sequences.append(segment.sequence)
            sizes.append(info.size)
        elif _is_metadata(info.key, cluster_id):
            inventory.metadata.append(MetadataObject(info.key, info.size))
        else:
            inventory.findings.add(_foreign(info.key, info.size))
    segments = np.empty(len(sizes), Segments)
    segments["lease_id"], segments["sequence"], segments["size"] = lease_ids, sequences, sizes
    inventory.segments = np.sort(segments, order=("lease_id", "sequence"))
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
    """How many segments no extent lies in, by what the control plane says of them.

    `garbage` was never committed and never will be. `replaced` waits for collection. What is
    `of_the_living` was written under a lease that has not ended: it is being written, was replaced, or
    failed.
    """

    garbage: int = 0
    garbage_bytes: int = 0
    replaced: int = 0
    of_the_living: int = 0


def unreferenced_of(inventory: Inventory, table: Rows) -> list[tuple[SegmentId, int]]:
    """Listed segments that no extent of the table lies in, with their sizes."""
    is_used = np.isin(ids_of(inventory.segments), ids_of(table))
    left = inventory.segments[~is_used]
    return [
        (SegmentId(lease_id, sequence), size)
        for lease_id, sequence, size in left[["lease_id", "sequence", "size"]].tolist()
    ]


def ids_of(rows: Rows) -> "np.ndarray[tuple[int], np.dtype[np.complex128]]":
    """One value for each segment id; exact below 2^53, and no lease counts further."""
    ids: Column = rows["lease_id"]
    return ids.astype(np.float64) + 1j * rows["sequence"].astype(np.float64)


def judge_unreferenced(
    control: ControlPlane,
    store: ObjectStore,
    left: Sequence[tuple[SegmentId, int]],
    cluster_id: str,
    findings: Findings,
) -> Unreferenced:
    """Tells garbage and what a lost journal forgot from what is replaced or still being written.

    Ask after the extents: what was committed since is known then, and no garbage.
    """
    sizes = dict(left)
    unknown = sorted(_uncommitted(control, sizes))
    # One that was replaced long ago may have been collected, and forgotten, since the listing.
    strays = [each for each in unknown if _is_there(store, segment_key(cluster_id, each))]
    for segment in strays:
        findings.add(_garbage(segment_key(cluster_id, segment), sizes[segment]))
    rest = sizes.keys() - set(unknown)
    ended = _ended_leases(control, {segment.lease_id for segment in rest})
    known = [segment for segment in rest if segment.lease_id in ended]
    open_ones = [segment for segment in rest if segment.lease_id not in ended]
    if open_ones:
        newest = _newest_lease(control)
        for segment in [each for each in open_ones if each.lease_id > newest]:
            findings.add(_future(segment_key(cluster_id, segment), sizes[segment], segment, newest))
    return Unreferenced(
        len(strays), sum(sizes[each] for each in strays), len(known), len(open_ones)
    )


def _is_there(store: ObjectStore, key: str) -> bool:
    try:
        store.size(key)
    except ObjectNotFoundError:
        return False
    return True


def _uncommitted(control: ControlPlane, segments: Iterable[SegmentId]) -> Iterator[SegmentId]:
    """Those of ended leases that the control plane does not know."""
    left = iter(segments)
    while asked := list(islice(left, _ASKED_AT_ONCE)):
        messages = [
            SegmentMessage(lease_id=each.lease_id, sequence=each.sequence) for each in asked
        ]
        reply = control.call(Command(filter_uncommitted=FilterUncommitted(segments=messages)))
        for found in reply.uncommitted_filtered.segments:
            yield SegmentId(found.lease_id, found.sequence)


def _ended_leases(control: ControlPlane, lease_ids: Iterable[int]) -> set[int]:
    """Of these the ended ones: of them no segment counts that is not known, whatever its number."""
    probes = (SegmentId(lease_id, MAX_SEQUENCE) for lease_id in lease_ids)
    return {found.lease_id for found in _uncommitted(control, probes)}


def _newest_lease(control: ControlPlane) -> int:
    """A lease id above all that were given out before; it is given back at once."""
    opened = control.call(Command(open_lease=OpenLease(duration_ms=_PROBE_LEASE_MS))).lease_opened
    control.call(Command(release_lease=ReleaseLease(lease_id=opened.lease_id)))
    return opened.lease_id


def _garbage(key: str, size: int) -> Finding:
    return Finding(
        kind=Kind.GARBAGE,
        reason="written and never committed, and whoever wrote it is gone",
        key=key,
        position=0,
        size=size,
    )


def _future(key: str, size: int, segment: SegmentId, newest: int) -> Finding:
    return Finding(
        kind=Kind.FUTURE,
        reason=f"lease {segment.lease_id:x} was never given out, {newest:x} is the newest one",
        key=key,
        position=0,
        size=size,
    )
