"""The metadata that a reader of logs needs, from the control plane or from a snapshot in the bucket."""

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
        """The cluster's id, with which object keys begin."""
        ...

    @property
    def whose(self) -> str:
        """The end of the error message for a missing topic, if ACLs may hide topics."""
        ...

    def topics(self) -> Mapping[str, Topic]:
        """Returns the current topics by name."""
        ...

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """Returns the current logs, in the order of `keys`. Raises StaleMetadataError if a topic was deleted."""
        ...

    def readable_logs(
        self, keys: Iterable[PartitionKey], store_url: str, *, is_committed: bool = True
    ) -> list[PartitionLog]:
        """Returns the logs once their records (with `is_committed`, only committed ones) are in the bucket."""
        ...

    def as_of(self, keys: Sequence[PartitionKey], at_ms: int, *, is_cut: bool = False) -> AsOf:
        """Returns where read_committed consumers of these partitions stopped at a past time or, with `is_cut`, a cut as
        of that time.

        If nothing is known for that exact time, the last known time before it is used. Raises PipelineError if the
        source has no past cuts.
        """
        ...

    def cut(self, keys: Sequence[PartitionKey]) -> Cut:
        """Returns the largest ends of these partitions that split no transaction. Logs that are read later reach at
        least as far.

        Raises PipelineError if there are too many partitions for one cut.
        """
        ...

    def close(self) -> None:
        """Releases connections and other resources."""
        ...


def open_metadata(location: ClusterLocation, kind: str = CONTROL) -> MetadataSource:
    """Opens the control plane ("control") or the newest metadata snapshot ("bucket") as a source of metadata.

    Raises PipelineError, ControlPlaneUnavailable.
    """
    if kind == CONTROL:
        return JobClient(location.require_control())
    if kind == BUCKET:
        from lacuna.pipeline.metadata.stored import StoredMetadata

        return StoredMetadata(location.store)
    raise PipelineError(f"metadata={kind!r}: choose {CONTROL!r} or {BUCKET!r}")


def open_checked(location: ClusterLocation, kind: str) -> MetadataSource:
    """Calls `open_metadata` and `check_store`, whose errors it raises."""
    metadata = open_metadata(location, kind)
    try:
        check_store(location.store, metadata.cluster_id)
    except BaseException:
        metadata.close()
        raise
    return metadata
