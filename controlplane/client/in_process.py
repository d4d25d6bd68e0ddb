"""The transport without a wire: a runtime in the same event loop, the same messages."""

from collections.abc import Sequence

from controlplane.client.calls import Calls
from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.client.host import Host
from controlplane.client.subscriptions import Subscriptions
from controlplane.client.views import ClusterView, PartitionView
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionDelta


class InProcessClient:
    """A ControlClient of a runtime in this process. A command is decided within `call`, before it
    first waits.

    `max_partitions` bounds the subscribed views, `max_calls` the calls under way.
    """

    def __init__(
        self, host: Host, *, max_partitions: int = 10_000, max_calls: int = 100_000
    ) -> None:
        self._calls = Calls(max_calls)
        self._ended: ControlPlaneUnavailable | None = None
        self._subscriptions = Subscriptions(
            max_partitions,
            lambda keys: self._session.subscribe(keys) if self._ended is None else None,
            lambda keys: self._session.unsubscribe(keys),
        )
        self._session = host.open_session(self)

    @property
    def cluster(self) -> ClusterView:
        """Topics and live agents."""
        return self._subscriptions.cluster

    async def call(self, command: Command) -> Reply:
        """As ControlClient says."""
        if self._ended is not None:
            raise ControlPlaneUnavailable(str(self._ended))
        future = self._calls.add(command)
        try:
            self._session.submit((command,))
            return await future
        finally:
            self._calls.forget(command.command_id)

    def give_up_unsent(self, reason: str) -> None:
        """As ControlClient says: nothing waits for a session here."""

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """As ControlClient says."""
        return self._subscriptions.partition(topic_id, partition)

    async def close(self) -> None:
        """As ControlClient says."""
        if self._ended is None:
            self._session.close()
            self.lost(ControlPlaneUnavailable("this client is closed"))

    def deliver(
        self,
        partitions: Sequence[PartitionDelta],
        cluster: Sequence[ClusterDelta],
        replies: Sequence[Reply],
    ) -> None:
        """As Receiver says."""
        self._subscriptions.apply(partitions, cluster)
        self._calls.resolve(replies)

    def lost(self, error: ControlPlaneUnavailable) -> None:
        """As Receiver says."""
        self._ended = error
        self._subscriptions.interrupt()
        self._subscriptions.fail(error)
        self._calls.fail(error)
