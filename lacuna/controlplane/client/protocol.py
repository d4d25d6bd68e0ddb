"""The control plane as agents and jobs see it, independent of the transport, and the errors of a call to it."""

from typing import Protocol

from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import ReadPartitions


class ControlPlaneUnavailable(Exception):
    """There was no reply: the command may or may not have taken effect. Idempotent commands can be retried."""


class CommandRefused(Exception):
    """The control plane rejected the command and changed nothing. `code` is the number of an ErrorCode.

    With UNKNOWN_SERVER_ERROR, the leader fell silent while it decided the command, which may have changed something.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code
        self.message = message


class ControlClient(Protocol):
    """A client of the control plane: it sends commands, and receives replies and versioned deltas."""

    @property
    def journal_position(self) -> int:
        """The position up to which the journal is known to be durable; 0 if not known yet."""
        ...

    @property
    def cluster(self) -> ClusterView:
        """The view of topics and live agents, kept current by deltas."""
        ...

    @property
    def is_shut_out(self) -> bool:
        """Whether this client cannot reach the leader, because the leader is reachable only from its own machine."""
        ...

    async def call(self, command: Command) -> Reply:
        """Set `command.command_id`, send the command and return its reply.

        Commands are decided in the order of the calls. By the time the reply is returned, the views include every
        change that was made before it. Raises ControlPlaneUnavailable (the outcome is unknown) and CommandRefused
        (nothing changed).
        """
        ...

    def give_up_unsent(self, reason: str) -> None:
        """Fail all calls whose command has not been sent yet, with ControlPlaneUnavailable(reason). These commands are
        never sent.
        """
        ...

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """Return the view of a partition, and subscribe to it if necessary. Await its `ready()` before reading it.

        Beyond a bound, the least recently used views without listeners are unsubscribed. So call this method at each
        use instead of keeping the view.
        """
        ...

    async def close(self) -> None:
        """End the session; waiting calls fail. Closing again does nothing."""
        ...


async def confirm(control: ControlClient) -> None:
    """Wait until the views include every change that the control plane acknowledged to anyone before this call.

    Each session receives changes separately, so a change acknowledged to another session may still be on its way to
    this one. The reply to an empty read arrives after all such changes (adr/0003). Raises what ControlClient.call
    raises.
    """
    await control.call(Command(read_partitions=ReadPartitions()))
