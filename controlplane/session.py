"""A session's end in the runtime, and what is held for it until it is durable."""

from collections.abc import Sequence
from typing import Protocol

from controlplane.client.host import PartitionKey, Receiver
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionDelta


class Plane(Protocol):
    """What a session hands on to its runtime."""

    def submit(self, session: "PlaneSession", commands: Sequence[Command]) -> None:
        """Takes commands, in order."""
        ...

    def subscribe(self, session: "PlaneSession", keys: Sequence[PartitionKey]) -> None:
        """Begins to tell of partitions."""
        ...

    def unsubscribe(self, session: "PlaneSession", keys: Sequence[PartitionKey]) -> None:
        """Ends it."""
        ...

    def close_session(self, session: "PlaneSession") -> None:
        """Forgets the session."""
        ...


class Held:
    """What one session gets from one decision, once `position` is durable."""

    __slots__ = ("cluster", "partitions", "position", "replies", "session")

    def __init__(self, position: int, session: "PlaneSession") -> None:
        self.position = position
        self.session = session
        self.partitions: list[PartitionDelta] = []
        self.cluster: list[ClusterDelta] = []
        self.replies: list[Reply] = []


class PlaneSession:
    """A session's host end (`controlplane.client.host.HostSession`)."""

    __slots__ = ("_plane", "is_closed", "keys", "number", "parked", "receiver")

    def __init__(self, plane: Plane, number: int, receiver: Receiver) -> None:
        self._plane = plane
        self.number = number  # from 1, of this run of the control plane
        self.receiver = receiver
        self.is_closed = False
        self.keys: set[PartitionKey] = set()
        #: Tokens of commands whose reply comes with a later decision.
        self.parked: dict[int, int] = {}

    def submit(self, commands: Sequence[Command]) -> None:
        """As HostSession says."""
        self._plane.submit(self, commands)

    def subscribe(self, keys: Sequence[PartitionKey]) -> None:
        """As HostSession says."""
        self._plane.subscribe(self, keys)

    def unsubscribe(self, keys: Sequence[PartitionKey]) -> None:
        """As HostSession says."""
        self._plane.unsubscribe(self, keys)

    def close(self) -> None:
        """As HostSession says."""
        self._plane.close_session(self)
