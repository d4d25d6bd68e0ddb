"""Reads metadata from the newest valid snapshot in the bucket, without a server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from lacuna.controlplane.client import AsOf, Cut
from lacuna.controlplane.shared.history import common_second, known_from
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.log_pb2 import (
    MetadataIndex,
    PartitionAsOf,
    PartitionCut,
    StoredPartition,
)
from lacuna.logstore.objects import ObjectNotFoundError, ObjectStore
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.logstore.segments import (
    InvalidPathError,
    MetadataName,
    metadata_prefix,
    parse_metadata_key,
)
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.metadata.layout import decode_index, decode_partition
from lacuna.pipeline.stores import check_store, shared_store


class StoredMetadata:
    """A MetadataSource that reads snapshots. Every call looks for a newer one, so that streams make progress.

    The constructor and all calls raise PipelineError if there is no valid snapshot.
    """

    whose = ""

    def __init__(self, store_url: str, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.cluster_id = check_store(store_url)
        self._store = shared_store(store_url)
        self._now_ms = now_ms
        self._name, self._index = self._newest()

    def topics(self) -> Mapping[str, Topic]:
        self._refresh()
        return {topic.name: topic for topic in self._index.topics}

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        self._refresh()
        names = {topic.topic_id: topic.name for topic in self._index.topics}
        stored = {
            (each.partition.topic_id, each.partition.partition): each
            for each in self._index.partitions
        }
        return [self._log(key, names, stored) for key in keys]

    def readable_logs(
        self,
        keys: Iterable[PartitionKey],
        store_url: str,  # noqa: ARG002
        *,
        is_committed: bool = True,  # noqa: ARG002
    ) -> list[PartitionLog]:
        """Equivalent to `partition_logs`, since everything that a snapshot refers to is in the bucket."""
        return self.partition_logs(keys)

    def as_of(self, keys: Sequence[PartitionKey], at_ms: int, *, is_cut: bool = False) -> AsOf:
        if is_cut:
            raise PipelineError(
                "a metadata snapshot contains a cut only as of its own time, not as of past times: use the "
                "control plane (metadata=control), or omit the time or the cut"
            )
        logs = self.partition_logs(keys)
        histories = [log.history for log in logs if log.history is not None]
        known = known_from(histories)
        second = common_second(histories, min(at_ms, self._index.published_ms))
        if second < known:
            return AsOf(0, known * 1000, {})
        found = {
            log.key: PartitionAsOf(
                end_offset=history.at(second, log.last_stable_offset),
                log_start_offset=log.log_start_offset,
                last_stable_offset=log.last_stable_offset,
            )
            for log, history in zip(logs, histories, strict=True)
        }
        return AsOf(second * 1000, known * 1000, found)

    def cut(self, keys: Sequence[PartitionKey]) -> Cut:
        """Returns a cut of all topics as of the snapshot. It may be lower than a cut of just these partitions."""
        ends: dict[PartitionKey, PartitionCut] = {}
        for log in self.partition_logs(keys):
            if log.cut is None:
                raise PipelineError(
                    "the metadata snapshot contains no cut, because the cluster had too many partitions for one: "
                    "use the control plane (metadata=control)"
                )
            ends[log.key] = PartitionCut(
                end_offset=log.cut, last_stable_offset=log.last_stable_offset
            )
        return Cut(self._index.published_ms, ends, ())

    def close(self) -> None:
        """Does nothing: the store is shared and stays open."""

    def _log(
        self,
        key: PartitionKey,
        names: Mapping[bytes, str],
        stored: Mapping[PartitionKey, StoredPartition],
    ) -> PartitionLog:
        found = stored.get(key)
        if found is None or key[0] not in names:
            raise StaleMetadataError(
                f"partition {key[1]} of the topic with id {show_id(key[0])} is not in the "
                "metadata snapshot, because it was created later or deleted: publish a new "
                "snapshot with `lacuna metadata publish`"
            )
        part = self._name.part_key(self.cluster_id, found.part)
        data = bytes(self._store.get(part, found.position, found.size))
        return decode_partition(part, names[key[0]], found, data)

    def _refresh(self) -> None:
        self._name, self._index = self._newest(self._name, self._index)

    def _newest(
        self, known: MetadataName | None = None, index: MetadataIndex | None = None
    ) -> tuple[MetadataName, MetadataIndex]:
        """Returns the newest snapshot and its index, which is not read again if the snapshot is `known`.

        If it has expired, no older one is used, because a reader that has seen the newer one would go back in time.
        """
        names = published(self._store, self.cluster_id)
        name = max(names, default=None)
        if name is None or name.valid_until_ms <= self._now_ms():
            what = "there is no metadata snapshot in the bucket"
            if name is not None:
                what = "the newest metadata snapshot in the bucket has expired"
            raise PipelineError(
                f"{what}: publish one with `lacuna metadata publish`, or use the control plane (metadata=control)"
            )
        if index is not None and name == known:
            return name, index
        key = name.index_key(self.cluster_id)
        try:
            return name, decode_index(key, bytes(self._store.get_all(key)))
        except ObjectNotFoundError as error:
            raise StaleMetadataError(f"{key!r} has just been removed: try again") from error


def published(store: ObjectStore, cluster_id: str) -> list[MetadataName]:
    """Returns the complete snapshots (those with an index), oldest first."""
    return [name for _, name, is_index in snapshot_objects(store, cluster_id) if is_index]


def snapshot_objects(
    store: ObjectStore, cluster_id: str
) -> Iterator[tuple[str, MetadataName, bool]]:
    """Yields the key and name of each object of a snapshot, and whether it is the index. Other objects are skipped."""
    for info in store.list(metadata_prefix(cluster_id)):
        try:
            _, name, is_index = parse_metadata_key(info.key)
        except InvalidPathError:
            continue
        yield info.key, name, is_index
