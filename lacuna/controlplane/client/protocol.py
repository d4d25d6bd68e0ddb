"""The control plane as agents and jobs see it, regardless of the transport, and the errors of calls to it."""

from typing import Protocol

from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import ReadPartitions


class ControlPlaneUnavailable(Exception):
    """The control plane has not replied, so the command may have taken effect. Idempotent commands can be retried."""


class CommandRefused(Exception):
    """The control plane has rejected the command and changed nothing. `code` is the number of an ErrorCode.

    UNKNOWN_SERVER_ERROR is different: the leader fell silent while deciding the command, which may have had an effect.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code
        self.message = message


class ControlClient(Protocol):
    """Sends commands to the control plane, and receives replies and versioned deltas."""

    @property
    def journal_position(self) -> int:
        """The position up to which the journal is known to be durable, or 0 if not yet known."""
        ...

    @property
    def cluster(self) -> ClusterView:
        """The view of topics and live agents, kept current by deltas."""
        ...

    @property
    def is_shut_out(self) -> bool:
        """Whether the leader cannot be reached because it accepts connections only from its own machine."""
        ...

    async def call(self, command: Command) -> Reply:
        """Set `command.command_id`, send the command and return its reply.

        Commands are decided in the order of the calls. When the reply is returned, the views reflect every change made
        before it. Raises ControlPlaneUnavailable (the outcome is unknown) or CommandRefused (nothing has changed).
        """
        ...

    def give_up_unsent(self, reason: str) -> None:
        """Fail all calls whose commands have not been sent, with ControlPlaneUnavailable(reason), and drop the
        commands.
        """
        ...

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """Return the view of a partition, subscribing to it if necessary. Await its `ready()` before reading it.

        Call this for each use instead of keeping the view: above a limit, the least recently used views without
        listeners are unsubscribed.
        """
        ...

    async def close(self) -> None:
        """End the session and fail all waiting calls. Closing again has no effect."""
        ...


async def confirm(control: ControlClient) -> None:
    """Wait until the views include every change that the control plane acknowledged to any client before this call.

    Each session receives changes separately, so one that was acknowledged to another client may not have arrived here
    yet. The reply to an empty read arrives after all such changes (adr/0003). Raises the same errors as
    ControlClient.call.
    """
    await control.call(Command(read_partitions=ReadPartitions()))
