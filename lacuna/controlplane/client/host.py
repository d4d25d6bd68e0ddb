"""The interface between the in-process transport and the runtime, which exchange gRPC's messages as objects."""

from collections.abc import Sequence
from typing import Protocol

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionDelta


class Receiver(Protocol):
    """The client's end of a session. The runtime calls these methods in the event loop, in the order of decisions,
    except for answers to ReadHot. They must not raise.
    """

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        """Apply the deltas, then settle the calls that the replies belong to.

        The messages are shared and must not be changed. The journal is durable up to `position`.
        """
        ...

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """Handle the end of the session, after which nothing more is delivered. `error` gives the reason."""
        ...


class HostSession(Protocol):
    """The control plane's end of a session. The first delivery is a snapshot of the cluster."""

    def submit(self, commands: Sequence[Command]) -> None:
        """Accept commands, to be decided in order. Raises ControlPlaneUnavailable if too many are waiting or the
        control plane has stopped.
        """
        ...

    def subscribe(self, keys: Sequence[PartitionKey]) -> None:
        """Send a snapshot of each partition (a new one if it is already subscribed), and then its deltas."""
        ...

    def unsubscribe(self, keys: Sequence[PartitionKey]) -> None:
        """Stop sending deltas of these partitions."""
        ...

    def close(self) -> None:
        """End the session of a client that has disconnected, and drop its parked commands."""
        ...


class Host(Protocol):
    """The control plane as seen by the in-process transport."""

    def open_session(self, receiver: Receiver) -> HostSession:
        """Open a session that delivers to `receiver`. Raises ControlPlaneUnavailable if the runtime has stopped."""
        ...
