"""Metadata from the newest valid snapshot in the bucket: a reader needs no server at all."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from controlplane.v1.cluster_pb2 import Topic
from controlplane.v1.metadata_pb2 import MetadataIndex, StoredPartition
from logstore.objects import ObjectNotFoundError, ObjectStore
from logstore.objects.store import wall_clock_ms
from logstore.segments import (
    InvalidPathError,
    MetadataName,
    metadata_prefix,
    parse_metadata_key,
)
from pipeline.errors import PipelineError, StaleMetadataError
from pipeline.extents import PartitionKey, PartitionLog
from pipeline.metadata.layout import decode_index, decode_partition
from pipeline.stores import check_store, shared_store


class StoredMetadata:
    """A MetadataSource. Each call looks for a newer snapshot, so that a stream goes on.

    Raises PipelineError where there is no valid one.
    """

    def __init__(self, store_url: str, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._cluster_id = check_store(store_url)
        self._store = shared_store(store_url)
        self._now_ms = now_ms
        self._name, self._index = self._newest()

    @property
    def cluster_id(self) -> str:
        """As MetadataSource says."""
        return self._cluster_id

    @property
    def name(self) -> MetadataName:
        """The snapshot that the last call was answered from."""
        return self._name

    def topics(self) -> Mapping[str, Topic]:
        """As MetadataSource says."""
        self._refresh()
        return {topic.name: topic for topic in self._index.topics}

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """As MetadataSource says."""
        self._refresh()
        names = {topic.topic_id: topic.name for topic in self._index.topics}
        stored = {
            (each.partition.topic_id, each.partition.partition): each
            for each in self._index.partitions
        }
        return [self._log(key, names, stored) for key in keys]

    def close(self) -> None:
        """As MetadataSource says; the store is shared and stays open."""

    def _log(
        self,
        key: PartitionKey,
        names: Mapping[bytes, str],
        stored: Mapping[PartitionKey, StoredPartition],
    ) -> PartitionLog:
        found = stored.get(key)
        if found is None or key[0] not in names:
            raise StaleMetadataError(
                f"partition {key[1]} of the topic with id {key[0].hex()} is not in the snapshot of "
                "metadata: it was made later, or deleted; publish a new one with "
                "`lacuna metadata publish`"
            )
        part = self._name.part_key(self._cluster_id, found.part)
        data = bytes(self._store.get(part, found.position, found.size))
        return decode_partition(part, names[key[0]], found, data)

    def _refresh(self) -> None:
        self._name, self._index = self._newest(self._name, self._index)

    def _newest(
        self, known: MetadataName | None = None, index: MetadataIndex | None = None
    ) -> tuple[MetadataName, MetadataIndex]:
        """The newest one, read where it is not the known one.

        Where it is out of date, one before it is none: a reader that has seen the newer would go back.
        """
        names = published(self._store, self._cluster_id)
        name = max(names, default=None)
        if name is None or name.valid_until_ms <= self._now_ms():
            old = "there is none" if name is None else "the last one is out of date"
            raise PipelineError(
                f"no valid snapshot of metadata in the bucket, {old}: publish one with "
                "`lacuna metadata publish`, or ask the control plane (metadata=control)"
            )
        if index is not None and name == known:
            return name, index
        key = name.index_key(self._cluster_id)
        try:
            return name, decode_index(key, bytes(self._store.get_all(key)))
        except ObjectNotFoundError as error:
            raise StaleMetadataError(f"{key!r} was removed just now: try again") from error


def published(store: ObjectStore, cluster_id: str) -> list[MetadataName]:
    """The snapshots that are whole, the oldest first."""
    return [name for _, name, is_index in snapshot_objects(store, cluster_id) if is_index]


def snapshot_objects(
    store: ObjectStore, cluster_id: str
) -> Iterator[tuple[str, MetadataName, bool]]:
    """Key, name, and whether it is the index, of all objects of snapshots; what Lacuna never wrote is passed over."""
    for info in store.list(metadata_prefix(cluster_id)):
        try:
            _, name, is_index = parse_metadata_key(info.key)
        except InvalidPathError:
            continue
        yield info.key, name, is_index
