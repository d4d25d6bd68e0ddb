"""Writes a metadata snapshot to the bucket, and pins what it refers to for as long as it is valid."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.parts import MOST_AT_ONCE
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import MetadataIndex, PinReads
from lacuna.logstore.objects import NotDeletedError, ObjectStore
from lacuna.logstore.segments import MetadataName
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.hot import HotCopy, hot_named_in, put_into, with_copies
from lacuna.pipeline.metadata.layout import encode_index, encode_partition, stored_partition
from lacuna.pipeline.metadata.stored import snapshot_objects

log = logging.getLogger(__name__)

PART_BYTES: Final = 64 << 20
"""The approximate size in bytes of a part, which is held in memory as a whole."""
_PARTITIONS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published snapshot: its number of partitions, its size, and the number of expired snapshots `removed`."""

    name: MetadataName
    partitions: int
    bytes_written: int
    removed: int


class _Parts:
    """Collects encoded partitions, and writes them as parts of about PART_BYTES."""

    def __init__(self, store: ObjectStore, cluster_id: str, name: MetadataName) -> None:
        self.bytes_written = 0
        self._store = store
        self._cluster_id = cluster_id
        self._name = name
        self._number = 0
        self._data: list[bytes] = []
        self._size = 0

    def add(self, log: PartitionLog, index: MetadataIndex) -> None:
        data = encode_partition(log)
        if self._size and self._size + len(data) > PART_BYTES:
            self.flush()
        index.partitions.append(stored_partition(log, self._number, self._size, data))
        self._data.append(data)
        self._size += len(data)

    def flush(self) -> None:
        if self._data:
            self._store.put(self._name.part_key(self._cluster_id, self._number), self._data)
            self.bytes_written += self._size
            self._number += 1
            self._data, self._size = [], 0


def publish_metadata(
    control: JobClient, store: ObjectStore, *, keep_ms: int, now_ms: int
) -> Published:
    """Publishes a snapshot of all topics, and deletes expired ones.

    For `keep_ms`, the snapshot is valid, and nothing that it refers to is collected. It refers only to the bucket, so
    hot segments are copied there. Topics that are deleted in the meantime are omitted. Raises the same errors as
    `with_copies`, `control` and `store`.
    """
    cluster_id = control.cluster_id
    # The pin precedes the metadata, so that it protects everything that is read.
    control.call(Command(pin_reads=PinReads(duration_ms=keep_ms)))
    name = MetadataName(now_ms, now_ms + keep_ms)
    put = put_into(store)
    index = MetadataIndex(
        cluster_id=cluster_id, published_ms=now_ms, valid_until_ms=name.valid_until_ms
    )
    parts = _Parts(store, cluster_id, name)
    topics = control.topics().values()
    cut = _cut(control, topics)
    for topic in topics:
        try:
            for log in _logs(control, put, topic.topic_id, topic.partition_count, cut):
                parts.add(log, index)
        except StaleMetadataError:
            continue  # its topic is not in the index, so partitions already added are never read
        index.topics.append(topic)
    parts.flush()
    data = encode_index(index)
    store.put(name.index_key(cluster_id), [data])
    return Published(
        name=name,
        partitions=len(index.partitions),
        bytes_written=parts.bytes_written + len(data),
        removed=_remove_old(store, cluster_id, now_ms),
    )


def _cut(control: JobClient, topics: Collection[Topic]) -> Mapping[PartitionKey, int]:
    """Returns a cut of all topics, or nothing if they have too many partitions for one cut."""
    keys = [(each.topic_id, number) for each in topics for number in range(each.partition_count)]
    if len(keys) > MOST_AT_ONCE:
        return {}
    return {key: each.end_offset for key, each in control.cut(keys).partitions.items()}


def _logs(
    control: JobClient,
    put: Callable[[HotCopy], None],
    topic_id: bytes,
    count: int,
    cut: Mapping[PartitionKey, int],
) -> Iterator[PartitionLog]:
    keys: list[PartitionKey] = [(topic_id, partition) for partition in range(count)]
    for start in range(0, count, _PARTITIONS_AT_ONCE):
        some = keys[start : start + _PARTITIONS_AT_ONCE]
        logs = with_copies(control, put, partial(control.partition_logs, some), hot_named_in)
        # Read after the logs: if a last stable offset has not moved since then, it is the one in the log.
        for log, history in zip(logs, control.histories(some), strict=True):
            yield replace(log, history=history, cut=cut.get(log.key))


def _remove_old(store: ObjectStore, cluster_id: str, now_ms: int) -> int:
    """Deletes expired snapshots, even unfinished ones, starting with indexes. Returns the number of indexes deleted."""
    old: list[tuple[bool, str]] = []
    removed = 0
    for key, name, is_index in snapshot_objects(store, cluster_id):
        if name.valid_until_ms <= now_ms:
            old.append((not is_index, key))
            removed += is_index
    try:
        store.delete(key for _, key in sorted(old))
    except NotDeletedError as error:
        # The new snapshot is valid regardless, and the next run tries again.
        log.warning("an old metadata snapshot could not be deleted: %s", error)
    return removed
