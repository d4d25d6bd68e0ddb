"""What a reader has to know of the logs: asked of the control plane, or read from the bucket."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from controlplane.v1.cluster_pb2 import Topic
from pipeline.control import ControlPlane
from pipeline.errors import PipelineError
from pipeline.extents import PartitionKey, PartitionLog
from pipeline.location import ClusterLocation

CONTROL: Final = "control"
BUCKET: Final = "bucket"


class MetadataSource(Protocol):
    """Topics and logs of a cluster."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as object keys begin with it."""
        ...

    def topics(self) -> Mapping[str, Topic]:
        """Topics by name, as of now."""
        ...

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        """The logs of these partitions, in their order, as of now.

        Raises StaleMetadataError for a topic that is gone.
        """
        ...

    def close(self) -> None:
        """Gives up what it holds."""
        ...


def open_metadata(location: ClusterLocation, kind: str = CONTROL) -> MetadataSource:
    """The control plane (`kind` "control"), or the newest snapshot in the bucket ("bucket"), which
    needs no server.

    Raises PipelineError, ControlPlaneUnavailable.
    """
    if kind == CONTROL:
        return ControlPlane(location.require_control())
    if kind == BUCKET:
        from pipeline.metadata.stored import StoredMetadata

        return StoredMetadata(location.store)
    raise PipelineError(f"metadata comes from {CONTROL!r} or {BUCKET!r}, not from {kind!r}")
