"""The seam between the in-process transport and the runtime: the same messages, handed over as
objects.
"""

from collections.abc import Sequence
from typing import Protocol

from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionDelta

#: topic id (16 bytes) and partition number.
PartitionKey = tuple[bytes, int]


class Receiver(Protocol):
    """A session's client end. Called in the event loop, in order; must not raise."""

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
    ) -> None:
        """Apply the deltas, then hand out the replies. The messages are shared: read only."""
        ...

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """The session has ended and nothing more comes."""
        ...


class HostSession(Protocol):
    """A session's host end. The first thing delivered is a snapshot of the cluster."""

    def submit(self, commands: Sequence[Command]) -> None:
        """Takes commands, in order. Raises ControlPlaneUnavailable where too many wait already."""
        ...

    def subscribe(self, keys: Sequence[PartitionKey]) -> None:
        """Each is answered by a snapshot, then deltas; again by a new snapshot where it was
        subscribed.
        """
        ...

    def unsubscribe(self, keys: Sequence[PartitionKey]) -> None:
        """No more deltas of these."""
        ...

    def close(self) -> None:
        """The client is gone; replies that wait for others are given up."""
        ...


class Host(Protocol):
    """What the in-process transport connects to."""

    def open_session(self, receiver: Receiver) -> HostSession:
        """Raises ControlPlaneUnavailable where the control plane has stopped."""
        ...
