"""Tests how deltas change views, independently of any transport."""

import struct

import pytest

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.extents import ExtentTable, extent_rows
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Agent, ClusterDelta, Topic, TopicPartition
from lacuna.controlplane.v1.log_pb2 import ExtentColumns, Extents, ExtentSwap, PartitionDelta

TOPIC = bytes(15) + b"\1"
OTHER = bytes(15) + b"\2"


def extents(*bounds: int) -> Extents:
    """Return the extents between adjacent bounds."""
    count = len(bounds) - 1
    return Extents(
        lease_ids=[1] * count,
        sequences=range(count),
        positions=[0] * count,
        sizes=[10] * count,
        base_offsets=bounds[:-1],
        next_offsets=bounds[1:],
        max_timestamps=[0] * count,
        producer_ids=[-1] * count,
        producer_epochs=[-1] * count,
        transactions=[0] * count,
        flags=[0] * count,
    )


def columns(*bounds: int) -> ExtentColumns:
    """Return the same extents in the form that a snapshot has."""
    table = ExtentTable()
    table.append(extents(*bounds))
    return table.columns()


def pairs(first: int, end: int) -> bytes:
    """Return a single range of aborted records."""
    return struct.pack("<qq", first, end)


class Sent:
    """Subscriptions that record the requests for them in lists."""

    def __init__(self, max_partitions: int = 10) -> None:
        self.wanted: list[PartitionKey] = []
        self.given_up: list[PartitionKey] = []
        self.subscriptions = Subscriptions(max_partitions, self.wanted.extend, self.given_up.extend)

    def tell(self, **fields: object) -> None:
        partition = TopicPartition(topic_id=TOPIC, partition=0)
        delta = PartitionDelta(partition=partition, **fields)  # type: ignore[arg-type]
        self.subscriptions.apply([delta], [])

    def view(self) -> PartitionView:
        return self.subscriptions.partition(TOPIC, 0)


@pytest.fixture
def sent() -> Sent:
    """Yields a view of four extents [0, 10), [10, 20), ... at version 1. The second and third are dead."""
    sent = Sent()
    sent.view()
    sent.tell(
        is_snapshot=True,
        version=1,
        high_watermark=40,
        last_stable_offset=40,
        extents=columns(0, 10, 20, 30, 40),
        dead=pairs(10, 30),
    )
    return sent


def dead(view: PartitionView) -> list[tuple[int, int]]:
    return list(zip(view.dead.firsts, view.dead.ends, strict=True))


def test_a_snapshot_is_the_whole(sent: Sent) -> None:
    view = sent.view()
    assert (view.version, view.high_watermark, view.last_stable_offset) == (1, 40, 40)
    assert list(view.extents.base_offsets) == [0, 10, 20, 30]
    assert dead(view) == [(10, 30)]
    sent.tell(is_snapshot=True, version=9, high_watermark=5, extents=columns(0, 5))
    assert view is sent.view()
    assert list(view.extents.next_offsets) == [5]
    assert dead(view) == []
    assert view.version == 9


def test_one_delta_changes_everything_in_one_step(sent: Sent) -> None:
    """S3: watermarks, extents and dead ranges share one version."""
    view = sent.view()
    sent.tell(
        from_version=1,
        version=2,
        high_watermark=50,
        last_stable_offset=45,
        log_start_offset=3,
        appended=extent_rows(extents(40, 45, 50)),
        dead=pairs(30, 40),
    )
    assert (view.version, view.high_watermark, view.last_stable_offset) == (2, 50, 45)
    assert view.log_start_offset == 3
    assert list(view.extents.next_offsets) == [10, 20, 30, 40, 45, 50]
    assert dead(view) == [(10, 40)]


def test_a_swap_replaces_extents_and_removes_the_dead_ranges_within(sent: Sent) -> None:
    swap = ExtentSwap(first_offset=0, end_offset=30, extents=extents(0, 10))
    sent.tell(from_version=1, version=2, high_watermark=40, last_stable_offset=40, swaps=[swap])
    view = sent.view()
    assert list(view.extents.base_offsets) == [0, 30]
    assert dead(view) == []


@pytest.mark.parametrize(
    ("below", "left", "dead_left"),
    [(5, [0, 10, 20, 30], [(10, 30)]), (20, [20, 30], [(10, 30)]), (30, [30], []), (40, [], [])],
)
def test_what_ends_below_the_log_start_is_gone(
    sent: Sent, below: int, left: list[int], dead_left: list[tuple[int, int]]
) -> None:
    sent.tell(
        from_version=1, version=2, high_watermark=40, log_start_offset=below, dropped_below=below
    )
    assert list(sent.view().extents.base_offsets) == left
    assert dead(sent.view()) == dead_left


def test_a_gap_makes_the_view_stale_until_a_snapshot(sent: Sent) -> None:
    """Tests rule S3."""
    view = sent.view()
    sent.tell(from_version=2, version=3, high_watermark=60)
    assert not view.is_current
    assert sent.wanted == [(TOPIC, 0), (TOPIC, 0)]
    sent.tell(from_version=3, version=4, high_watermark=70)
    assert sent.wanted == [(TOPIC, 0), (TOPIC, 0)]
    assert (view.version, view.high_watermark) == (1, 40)
    sent.tell(is_snapshot=True, version=4, high_watermark=70)
    assert view.is_current
    assert view.high_watermark == 70


def test_the_view_of_a_deleted_topic_leaves_once_it_is_not_in_use(sent: Sent) -> None:
    """Otherwise it would take up memory, also in the control plane, until room runs out."""
    view, called = sent.view(), list[None]()
    listener = lambda: called.append(None)  # noqa: E731 - one listener, added and removed
    view.add_listener(listener)
    sent.tell(is_snapshot=True, version=1, is_deleted=True)
    assert called
    other = (view.topic_id, view.partition + 1)
    sent.subscriptions.partition(*other)
    assert sent.given_up == []
    view.remove_listener(listener)
    assert view.is_current
    sent.subscriptions.partition(view.topic_id, view.partition + 2)
    assert sent.given_up == [(view.topic_id, view.partition)]
    assert sent.subscriptions.keys() == [other, (view.topic_id, view.partition + 2)]


def test_a_deleted_topic_is_deleted(sent: Sent) -> None:
    """Tests rule S6."""
    sent.tell(from_version=1, version=2, is_deleted=True)
    assert sent.view().is_deleted
    assert sent.view().is_current


def test_deltas_of_what_is_not_subscribed_are_passed_over(sent: Sent) -> None:
    partition = TopicPartition(topic_id=OTHER, partition=0)
    sent.subscriptions.apply([PartitionDelta(partition=partition, version=1)], [])
    assert sent.subscriptions.keys() == [(TOPIC, 0)]


async def test_without_a_way_ready_says_so(sent: Sent) -> None:
    view = sent.view()
    sent.subscriptions.interrupt()
    sent.subscriptions.fail(ControlPlaneUnavailable("gone"))
    for waiting in (view.ready(), sent.subscriptions.cluster.ready()):
        with pytest.raises(ControlPlaneUnavailable, match="gone"):
            await waiting


def test_the_cluster_view_follows_topics_and_agents() -> None:
    cluster = Sent().subscriptions.cluster
    topic = Topic(topic_id=TOPIC, name="a", partition_count=1)
    agent = Agent(node_id=1, host="here", port=9092)
    cluster.apply(
        ClusterDelta(is_snapshot=True, version=3, cluster_id="c", topics=[topic], agents=[agent])
    )
    assert cluster.topics_by_name == {"a": topic}
    assert cluster.agents == (agent,)
    cluster.apply(ClusterDelta(version=4, topics=[Topic(topic_id=OTHER, name="b")]))
    assert cluster.agents == (agent,)
    assert set(cluster.topics_by_id) == {TOPIC, OTHER}
    cluster.apply(ClusterDelta(version=5, has_agents=True))
    assert not cluster.agents
    assert (cluster.version, cluster.cluster_id) == (5, "c")


def test_a_topic_made_anew_under_its_name_has_another_id() -> None:
    """S6: the two changes may arrive in either order."""
    cluster = Sent().subscriptions.cluster
    old, new = (Topic(topic_id=topic_id, name="a") for topic_id in (TOPIC, OTHER))
    cluster.apply(ClusterDelta(is_snapshot=True, version=1, topics=[old]))
    cluster.apply(ClusterDelta(version=2, deleted_topic_ids=[TOPIC], topics=[new]))
    assert cluster.topics_by_name == {"a": new}
    assert cluster.topics_by_id == {OTHER: new}
    cluster.apply(ClusterDelta(version=3, topics=[old]))
    cluster.apply(ClusterDelta(version=4, deleted_topic_ids=[OTHER, bytes(16)]))
    assert cluster.topics_by_name == {"a": old}
