"""The views of one client, and the subscriptions and deltas that keep them current."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from lacuna.controlplane.client.protocol import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.log_pb2 import PartitionDelta

Send = Callable[[Sequence[PartitionKey]], None]


class Subscriptions:
    """The subscribed views: at most `max_partitions`, not counting excess views that are in use.

    A request for more partitions than that therefore keeps its views until it has all of them. `subscribe` and
    `unsubscribe` notify the control plane, or wait until there is a session.
    """

    def __init__(self, max_partitions: int, subscribe: Send, unsubscribe: Send) -> None:
        self.cluster = ClusterView(self)
        self._max_partitions = max_partitions
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._subscribed: dict[PartitionKey, PartitionView] = {}
        #: The subscribed views that are not in use, least recently used first.
        self._idle: OrderedDict[PartitionKey, None] = OrderedDict()
        #: The views of deleted topics. They are dropped on the next delta or call once they are no longer in use.
        self._deleted: dict[PartitionKey, None] = {}
        #: Includes unsubscribed views that a caller still holds, so that a partition never has two view objects.
        self._known: WeakValueDictionary[PartitionKey, PartitionView] = WeakValueDictionary()
        self._failure: ControlPlaneUnavailable | None = None

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """Return the view of a partition, subscribing to it if necessary."""
        key = (topic_id, partition)
        view = self._subscribed.get(key)
        if view is not None:
            if key in self._idle:
                self._idle.move_to_end(key)
            return view
        view = self._known.get(key)
        if view is None:
            view = self._known[key] = PartitionView(topic_id, partition, self)
        self._add(key, view)
        return view

    def keys(self) -> list[PartitionKey]:
        return list(self._subscribed)

    def want(self, view: PartitionView) -> None:
        self.want_cluster()
        key = (view.topic_id, view.partition)
        if key not in self._subscribed:
            self._add(key, view)

    def note_use(self, view: PartitionView) -> None:
        key = (view.topic_id, view.partition)
        if view.is_in_use:
            self._idle.pop(key, None)
        elif key in self._subscribed:
            self._idle[key] = None
            self._make_room()

    def want_cluster(self) -> None:
        if self._failure is not None:
            raise ControlPlaneUnavailable(str(self._failure))

    def apply(self, partitions: Sequence[PartitionDelta], cluster: Sequence[ClusterDelta]) -> None:
        """Apply deltas in order. A view that has missed a version is subscribed again (S3)."""
        self._drop_deleted()
        for delta in partitions:
            key = key_of(delta.partition)
            view = self._subscribed.get(key)
            if view is not None and delta.refusal:
                self._remove(key)
                view.fail(CommandRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, delta.refusal))
            elif view is not None and not view.apply(delta):
                self._subscribe((key,))
            elif view is not None and view.is_deleted:
                self._deleted[key] = None
        for cluster_delta in cluster:
            self.cluster.apply(cluster_delta)

    def interrupt(self) -> None:
        """Mark every view as stale, since versions may be missed without a session."""
        self.cluster.is_current = False
        for view in self._subscribed.values():
            view.leave()

    def fail(self, error: ControlPlaneUnavailable) -> None:
        """Fail all callers that are waiting for a view: the control plane is unreachable until `restore` is called."""
        self._failure = error
        self.cluster.fail(error)
        for view in self._subscribed.values():
            view.fail(error)

    def restore(self) -> None:
        """Let callers wait for views again, now that there is a session. Each view is stale until updated."""
        self._failure = None
        for view in self._subscribed.values():
            view.is_as_left = False

    def _drop_deleted(self) -> None:
        """Unsubscribe unused views of deleted topics, which would otherwise stay until room is needed."""
        for key in [each for each in self._deleted if each in self._idle]:
            self._remove(key)
            self._unsubscribe((key,))

    def _add(self, key: PartitionKey, view: PartitionView) -> None:
        self._drop_deleted()
        self._subscribed[key] = view
        if not view.is_in_use:
            self._idle[key] = None
        self._make_room()
        self._subscribe((key,))

    def _make_room(self) -> None:
        """Unsubscribe the least recently used views that are not in use, except the one just requested."""
        while len(self._subscribed) > self._max_partitions and len(self._idle) > 1:
            key = next(iter(self._idle))
            self._remove(key)
            self._unsubscribe((key,))

    def _remove(self, key: PartitionKey) -> None:
        self._idle.pop(key, None)
        self._deleted.pop(key, None)
        self._subscribed.pop(key).forget()
