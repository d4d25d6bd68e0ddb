"""Writes a snapshot of metadata to the bucket, and keeps what it speaks of for as long as it is valid."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import PinReads
from controlplane.v1.metadata_pb2 import MetadataIndex
from logstore.objects import ObjectStore
from logstore.segments import MetadataName
from pipeline.control import ControlPlane
from pipeline.errors import StaleMetadataError
from pipeline.extents import PartitionKey, PartitionLog
from pipeline.metadata.layout import encode_index, encode_partition, stored_partition
from pipeline.metadata.stored import snapshot_objects

PART_BYTES: Final = 64 << 20
"""Bytes of an object of partitions, and so what publishing holds in memory at a time."""
_PARTITIONS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was written; sizes in bytes. `removed` snapshots were out of date and are deleted."""

    name: MetadataName
    partitions: int
    bytes_written: int
    removed: int


class _Parts:
    """Gathers partitions and writes an object whenever there are enough."""

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
    control: ControlPlane, store: ObjectStore, *, keep_ms: int, now_ms: int
) -> Published:
    """Publishes all topics. For `keep_ms` nothing that it speaks of is collected.

    Removes snapshots that are out of date. Raises as ControlPlane and the store do; a topic that is
    deleted meanwhile is left out.
    """
    cluster_id = control.cluster_id
    # The pin is there before the first look, so that it holds what is seen.
    control.call(Command(pin_reads=PinReads(duration_ms=keep_ms)))
    name = MetadataName(now_ms, now_ms + keep_ms)
    index = MetadataIndex(
        cluster_id=cluster_id, published_ms=now_ms, valid_until_ms=name.valid_until_ms
    )
    parts = _Parts(store, cluster_id, name)
    for topic in control.topics().values():
        try:
            for log in _logs(control, topic.topic_id, topic.partition_count):
                parts.add(log, index)
        except StaleMetadataError:
            continue  # without its topic, what was added of it is never asked for
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


def _logs(control: ControlPlane, topic_id: bytes, count: int) -> Iterator[PartitionLog]:
    keys: list[PartitionKey] = [(topic_id, partition) for partition in range(count)]
    for start in range(0, count, _PARTITIONS_AT_ONCE):
        yield from control.partition_logs(keys[start : start + _PARTITIONS_AT_ONCE])


def _remove_old(store: ObjectStore, cluster_id: str, now_ms: int) -> int:
    """Deletes snapshots out of date, indexes first, and what was left by one that did not end."""
    old: list[tuple[bool, str]] = []
    removed = 0
    for key, name, is_index in snapshot_objects(store, cluster_id):
        if name.valid_until_ms <= now_ms:
            old.append((not is_index, key))
            removed += is_index
    store.delete(key for _, key in sorted(old))
    return removed
