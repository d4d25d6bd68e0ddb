"""Checks a bucket's objects other than segments: the cluster's marker and metadata snapshots."""

from collections import defaultdict
from collections.abc import Iterable

from lacuna.controlplane.v1.log_pb2 import StoredPartition
from lacuna.logstore.objects import DamagedObjectError, ObjectNotFoundError, ObjectStore
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.logstore.segments import ClusterMarker, MetadataName, parse_metadata_key
from lacuna.logstore.segments.paths import CLUSTER_MARKER_KEY
from lacuna.pipeline.audit.findings import Finding, Findings, Kind
from lacuna.pipeline.errors import DamagedDataError
from lacuna.pipeline.metadata.layout import decode_index, decode_partition

_MAX_MARKER_BYTES = 4096


def check_marker_bytes(store: ObjectStore, cluster_id: str) -> Finding | None:
    """Returns a finding if the marker is missing or is not as Lacuna wrote it for this cluster."""
    expected = ClusterMarker(cluster_id).encode()
    try:
        size = store.size(CLUSTER_MARKER_KEY)
        found = bytes(store.get_all(CLUSTER_MARKER_KEY)) if size <= _MAX_MARKER_BYTES else b""
    except ObjectNotFoundError:
        return Finding(kind=Kind.MARKER, reason="it does not exist", key=CLUSTER_MARKER_KEY)
    if found == expected:
        return None
    wrong = [at for at, (one, two) in enumerate(zip(found, expected, strict=False)) if one != two]
    first = wrong[0] if wrong else min(len(found), len(expected))
    end = wrong[-1] + 1 if wrong and len(found) == len(expected) else max(size, first + 1)
    return Finding(
        kind=Kind.MARKER,
        reason=f"it differs from what Lacuna wrote: {expected.decode().strip()}",
        key=CLUSTER_MARKER_KEY,
        position=first,
        size=end - first,
    )


def check_metadata(store: ObjectStore, keys: Iterable[str]) -> tuple[Findings, int]:
    """Checks every byte of these metadata snapshots. Returns the findings and the number of bytes read.

    An expired snapshot may be deleted in the meantime. Parts without an index are skipped because nothing reads them:
    they are still being written, or their publisher has died.
    """
    findings, bytes_read = Findings(), 0
    for key in keys:
        cluster_id, name, is_index = parse_metadata_key(key)
        if is_index:
            try:
                found, read = _check_snapshot(store, key, cluster_id, name)
            except ObjectNotFoundError as error:
                if name.valid_until_ms > wall_clock_ms():
                    findings.add(_damage(error.key, 0, 0, "it was deleted before it expired"))
                continue
            except DamagedObjectError as error:
                findings.add(_damage(error.key, error.position, error.size, error.reason))
                continue
            findings.add_all(found)
            bytes_read += read
    return findings, bytes_read


def _check_snapshot(
    store: ObjectStore, key: str, cluster_id: str, name: MetadataName
) -> tuple[Findings, int]:
    findings = Findings()
    data = bytes(store.get_all(key))
    try:
        index = decode_index(key, data)
    except DamagedDataError:
        findings.add(_damage(key, 0, len(data), "its checksum or format is wrong"))
        return findings, len(data)
    read = len(data)
    by_part: defaultdict[int, list[StoredPartition]] = defaultdict(list)
    for stored in index.partitions:
        by_part[stored.part].append(stored)
    for number, partitions in sorted(by_part.items()):
        part = name.part_key(cluster_id, number)
        read += _check_part(store, part, partitions, store.size(part), findings)
    return findings, read


def _check_part(
    store: ObjectStore,
    key: str,
    partitions: Iterable[StoredPartition],
    size: int,
    findings: Findings,
) -> int:
    edge = 0
    for stored in sorted(partitions, key=lambda each: each.position):
        if stored.position != edge or edge + stored.size > size:
            break
        data = bytes(store.get(key, stored.position, stored.size))
        try:
            decode_partition(key, "", stored, data)
        except DamagedDataError:
            findings.add(_damage(key, stored.position, stored.size, "the checksum does not match"))
        edge += stored.size
    if edge != size:
        findings.add(
            _damage(key, edge, abs(size - edge), "its length differs from the one in its index")
        )
    return edge


def _damage(key: str, position: int, size: int, reason: str) -> Finding:
    return Finding(kind=Kind.METADATA, reason=reason, key=key, position=position, size=size)
