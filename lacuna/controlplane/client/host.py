"""The interface between the in-process transport and the runtime: gRPC's messages, passed as objects."""

from collections.abc import Sequence
from typing import Protocol

from lacuna.controlplane.client.errors import ControlPlaneUnavailable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionDelta


class Receiver(Protocol):
    """The client's end of a session. The runtime calls it in the event loop, in order; it must not raise."""

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        """Apply the deltas, then settle the calls of the replies.

        The messages are shared, so they must not be changed. The journal is durable up to `position`.
        """
        ...

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """Learn that the session has ended, with the reason; nothing more is delivered."""
        ...


class HostSession(Protocol):
    """The control plane's end of a session. The first delivery is a snapshot of the cluster."""

    def submit(self, commands: Sequence[Command]) -> None:
        """Accept commands, to be decided in order.

        Raises ControlPlaneUnavailable if too many are waiting or the control plane has stopped.
        """
        ...

    def subscribe(self, keys: Sequence[PartitionKey]) -> None:
        """Start sending a snapshot and then deltas of each partition; one already subscribed gets a new snapshot."""
        ...

    def unsubscribe(self, keys: Sequence[PartitionKey]) -> None:
        """Stop sending deltas of these partitions."""
        ...

    def close(self) -> None:
        """End the session, as its client is gone; its parked commands are forgotten."""
        ...


class Host(Protocol):
    """The control plane as the in-process transport connects to it."""

    def open_session(self, receiver: Receiver) -> HostSession:
        """Open a session that delivers to `receiver`. Raises ControlPlaneUnavailable if the control plane stopped."""
        ...
