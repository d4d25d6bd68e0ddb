"""The views of one session: which partitions it watches, and what is applied to them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.client.host import PartitionKey
from controlplane.client.views import ClusterView, PartitionView
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.log_pb2 import PartitionDelta

Send = Callable[[Sequence[PartitionKey]], None]


class Subscriptions:
    """At most `max_partitions` views are subscribed, beyond that only those that are in use.

    `subscribe` and `unsubscribe` send to the control plane (or queue until there is a session).
    """

    def __init__(self, max_partitions: int, subscribe: Send, unsubscribe: Send) -> None:
        self.cluster = ClusterView(self)
        self._max_partitions = max_partitions
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._subscribed: OrderedDict[PartitionKey, PartitionView] = OrderedDict()
        #: Also views that were given up but are still held by someone: one object a partition.
        self._known: WeakValueDictionary[PartitionKey, PartitionView] = WeakValueDictionary()
        self._failure: ControlPlaneUnavailable | None = None

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """The view of a partition; subscribes it where it is not."""
        key = (topic_id, partition)
        view = self._subscribed.get(key)
        if view is not None:
            self._subscribed.move_to_end(key)
            return view
        view = self._known.get(key)
        if view is None:
            view = self._known[key] = PartitionView(topic_id, partition, self)
        self._add(key, view)
        return view

    def keys(self) -> list[PartitionKey]:
        """What is subscribed."""
        return list(self._subscribed)

    def want(self, view: PartitionView) -> None:
        """As `Feed` says."""
        self.want_cluster()
        key = (view.topic_id, view.partition)
        if key not in self._subscribed:
            self._add(key, view)

    def want_cluster(self) -> None:
        """As `Feed` says."""
        if self._failure is not None:
            raise ControlPlaneUnavailable(str(self._failure))

    def apply(self, partitions: Sequence[PartitionDelta], cluster: Sequence[ClusterDelta]) -> None:
        """Applies deltas in order; a view that missed a version is subscribed anew (S3)."""
        for delta in partitions:
            key = (delta.partition.topic_id, delta.partition.partition)
            view = self._subscribed.get(key)
            if view is not None and not view.apply(delta):
                self._subscribe((key,))
        for cluster_delta in cluster:
            self.cluster.apply(cluster_delta)

    def interrupt(self) -> None:
        """The session is lost: every view may miss versions from now on."""
        self.cluster.is_current = False
        for view in self._subscribed.values():
            view.is_current = False

    def fail(self, error: ControlPlaneUnavailable) -> None:
        """There is no way to the control plane until `restore`: who waits hears it."""
        self._failure = error
        self.cluster.fail(error)
        for view in self._subscribed.values():
            view.fail(error)

    def restore(self) -> None:
        """There is a session again."""
        self._failure = None

    def _add(self, key: PartitionKey, view: PartitionView) -> None:
        self._subscribed[key] = view
        if len(self._subscribed) > self._max_partitions:
            self._evict(key)
        self._subscribe((key,))

    def _evict(self, kept: PartitionKey) -> None:
        """Gives up the least recently used view that nobody listens to, if there is one."""
        for key, view in self._subscribed.items():
            if key != kept and not view.is_in_use:
                del self._subscribed[key]
                view.is_current = False
                self._unsubscribe((key,))
                return
