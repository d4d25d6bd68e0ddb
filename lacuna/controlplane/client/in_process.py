"""The transport to a control plane in the same event loop: the same messages, without gRPC."""

from collections.abc import Sequence

from lacuna.controlplane.client.calls import Calls
from lacuna.controlplane.client.host import Host
from lacuna.controlplane.client.parts import call_in_parts
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionDelta


class InProcessClient:
    """A ControlClient for a runtime in this process.

    Unless the runtime is busy, it decides a command within `call`, before the first await. At most `max_partitions`
    partitions are subscribed, and at most `max_calls` calls wait for a reply.
    """

    def __init__(
        self, host: Host, *, max_partitions: int = 10_000, max_calls: int = 100_000
    ) -> None:
        self._calls = Calls(max_calls)
        self._ended: ControlPlaneUnavailable | None = None
        self.journal_position = 0
        self._subscriptions = Subscriptions(
            max_partitions,
            lambda keys: self._session.subscribe(keys) if self._ended is None else None,
            lambda keys: self._session.unsubscribe(keys) if self._ended is None else None,
        )
        self._session = host.open_session(self)

    @property
    def cluster(self) -> ClusterView:
        return self._subscriptions.cluster

    @property
    def is_shut_out(self) -> bool:
        """Always false, since this client belongs to the only control plane."""
        return False

    async def call(self, command: Command) -> Reply:
        return await call_in_parts(self._call, command)

    async def _call(self, command: Command) -> Reply:
        if self._ended is not None:
            raise ControlPlaneUnavailable(str(self._ended))
        future = self._calls.add(command)
        try:
            self._session.submit((command,))
            return await future
        finally:
            self._calls.forget(command.command_id)

    def give_up_unsent(self, reason: str) -> None:
        """Do nothing, since no call waits for a session here."""

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        return self._subscriptions.partition(topic_id, partition)

    async def close(self) -> None:
        if self._ended is None:
            self._session.close()
            self.lost(ControlPlaneUnavailable("this client is closed"))

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
        position: int,
    ) -> None:
        self.journal_position = position
        self._subscriptions.apply(partitions, cluster)
        self._calls.resolve(replies)

    def lost(self, error: ControlPlaneUnavailable) -> None:
        self._ended = error
        self._subscriptions.interrupt()
        self._subscriptions.fail(error)
        self._calls.fail(error)
