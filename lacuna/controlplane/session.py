"""The runtime's end of a session, and the deliveries held until they are durable."""

from collections.abc import Sequence
from typing import Protocol

from lacuna.controlplane.client.host import Receiver
from lacuna.controlplane.rights import JobRights
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionDelta


class SessionRuntime(Protocol):
    """The runtime as its sessions use it."""

    def submit(self, session: "RuntimeSession", commands: Sequence[Command]) -> None: ...

    def subscribe(self, session: "RuntimeSession", keys: Sequence[PartitionKey]) -> None:
        """Begin delivering snapshots and deltas of these partitions."""
        ...

    def unsubscribe(self, session: "RuntimeSession", keys: Sequence[PartitionKey]) -> None: ...

    def close_session(self, session: "RuntimeSession") -> None:
        """End the session, including its subscriptions and parked commands."""
        ...


class Held:
    """One decision's replies and deltas for one session, held until the journal is durable up to `position`.

    If `proof` is not 0, they are also held until the proof with that number has been given (`Runtime`).
    """

    __slots__ = ("cluster", "partitions", "position", "proof", "replies", "session")

    def __init__(self, position: int, session: "RuntimeSession") -> None:
        self.position = position
        self.proof = 0
        self.session = session
        self.partitions: list[PartitionDelta] = []
        self.cluster: list[ClusterDelta] = []
        self.replies: list[Reply] = []


class RuntimeSession:
    """The control plane's end of a session (`lacuna.controlplane.client.host.HostSession`)."""

    __slots__ = (
        "_runtime",
        "is_closed",
        "is_cluster",
        "keys",
        "number",
        "older",
        "parked",
        "receiver",
        "rights",
        "unshown",
    )

    def __init__(
        self,
        runtime: SessionRuntime,
        number: int,
        receiver: Receiver,
        *,
        is_cluster: bool = True,
        rights: JobRights | None = None,
    ) -> None:
        """`is_cluster` is true for an agent or a control plane. `rights` is None unless ACLs restrict the client."""
        self._runtime = runtime
        self.is_cluster = is_cluster
        self.rights = rights
        self.number = number  # counted from 1 since the control plane was started
        self.receiver = receiver
        self.is_closed = False
        self.keys: set[PartitionKey] = set()
        #: Partitions to show as soon as there is time.
        self.unshown: set[PartitionKey] = set()
        #: Partitions that have been shown to the session only in part, each with the offset below which the missing
        #: extents begin.
        self.older: dict[PartitionKey, int] = {}
        #: Tokens of parked commands, each with its command id.
        self.parked: dict[int, int] = {}

    def submit(self, commands: Sequence[Command]) -> None:
        self._runtime.submit(self, commands)

    def subscribe(self, keys: Sequence[PartitionKey]) -> None:
        self._runtime.subscribe(self, keys)

    def unsubscribe(self, keys: Sequence[PartitionKey]) -> None:
        self._runtime.unsubscribe(self, keys)

    def close(self) -> None:
        self._runtime.close_session(self)
