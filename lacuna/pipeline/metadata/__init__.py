"""The metadata that a reader of logs needs, from the control plane or a snapshot in the bucket."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from lacuna.controlplane.client import AsOf, Cut
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.location import ClusterLocation
from lacuna.pipeline.stores import check_store

CONTROL: Final = "control"
BUCKET: Final = "bucket"


class MetadataSource(Protocol):
    """A source of a cluster's metadata: its topics and the logs of their partitions."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, which object keys begin with."""
        ...

    @property
    def whose(self) -> str:
        """A suffix for the error "there is no topic" if ACLs may hide some topics."""
        ...

    def topics(self) -> Mapping[str, Topic]:
        """The topics by name, as they are now."""
        ...

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """The logs as they are now, in the order of `keys`. Raises StaleMetadataError if a topic was deleted."""
        ...

    def readable_logs(
        self, keys: Iterable[PartitionKey], store_url: str, *, is_committed: bool = True
    ) -> list[PartitionLog]:
        """The same as `partition_logs`, once the records are in the bucket.

        With `is_committed`, only the records that read_committed readers get need to be in the bucket.
        """
        ...

    def as_of(self, keys: Sequence[PartitionKey], at_ms: int, *, is_cut: bool = False) -> AsOf:
        """The ends of these partitions for read_committed consumers at a time or, with `is_cut`, in a cut of that time.

        If that time is unknown, the last known time before it is used. Raises PipelineError if the source has no past
        cuts.
        """
        ...

    def cut(self, keys: Sequence[PartitionKey]) -> Cut:
        """The largest ends of these partitions that split no transaction. Logs that are read later reach these ends.

        Raises PipelineError if there are more partitions than one cut can have.
        """
        ...

    def close(self) -> None:
        """Releases connections and other resources."""
        ...


def open_metadata(location: ClusterLocation, kind: str = CONTROL) -> MetadataSource:
    """Opens the control plane (`kind` "control") or the newest metadata snapshot ("bucket") as a source of metadata.

    Raises PipelineError, ControlPlaneUnavailable.
    """
    if kind == CONTROL:
        return JobClient(location.require_control())
    if kind == BUCKET:
        from lacuna.pipeline.metadata.stored import StoredMetadata

        return StoredMetadata(location.store)
    raise PipelineError(f"metadata={kind!r}: choose {CONTROL!r} or {BUCKET!r}")


def open_checked(location: ClusterLocation, kind: str) -> MetadataSource:
    """The same as `open_metadata`, after checking that the store belongs to the cluster.

    It also raises the errors of `check_store`.
    """
    metadata = open_metadata(location, kind)
    try:
        check_store(location.store, metadata.cluster_id)
    except BaseException:
        metadata.close()
        raise
    return metadata
