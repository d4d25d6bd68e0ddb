"""What an agent holds of the control plane, whichever way the messages go."""

from typing import Protocol

from controlplane.client.views import ClusterView, PartitionView
from controlplane.v1.control_pb2 import Command, Reply


class ControlClient(Protocol):
    """One session with the control plane: commands up, replies and versioned deltas down."""

    @property
    def cluster(self) -> ClusterView:
        """Topics and live agents; kept up to date."""
        ...

    async def call(self, command: Command) -> Reply:
        """Sets `command.command_id`, sends the command and gives the reply to it.

        Commands are taken in the order of the calls. When the reply is there, the views have what
        it saw. Raises ControlPlaneUnavailable (the outcome is not known) and CommandRefused
        (nothing happened).
        """
        ...

    def give_up_unsent(self, reason: str) -> None:
        """Calls that have waited for a session fail with ControlPlaneUnavailable, and are not sent."""
        ...

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """The view of a partition, subscribed at first use; await `ready()` before reading it.

        The least recently used views without listeners are given up beyond a bound; ask here at
        each use.
        """
        ...

    async def close(self) -> None:
        """Ends the session; calls under way fail. Twice is once."""
        ...
