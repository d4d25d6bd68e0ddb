"""Tests versioned deltas, and a watcher's replica that applies them (S3)."""

import struct
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane.client.views import PartitionView
from lacuna.controlplane.shared.extents import EXTENT_ROW, DeadRanges, ExtentTable
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state import partition as partitions
from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, CreatePartitionsTopic
from lacuna.controlplane.v1.log_pb2 import PartitionDelta
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL, Cluster
from tests.controlplane.verbs.script import run
from tests.controlplane.verbs.test_merging import _plan, merge


class Replica:
    """Applies deltas as an agent does, but in the simplest way."""

    def __init__(self, snapshot: PartitionDelta) -> None:
        assert snapshot.is_snapshot
        self.extents = ExtentTable.from_columns(snapshot.extents)
        self.dead = DeadRanges()
        self._apply(snapshot)

    def apply(self, delta: PartitionDelta) -> None:
        assert delta.from_version == self.version
        self._apply(delta)

    def _apply(self, delta: PartitionDelta) -> None:
        self.version = delta.version
        self.bounds = (
            delta.log_start_offset,
            delta.last_stable_offset,
            delta.high_watermark,
        )
        for swap in delta.swaps:
            self.extents.replace(swap.first_offset, swap.end_offset, swap.extents)
            self.dead.remove(swap.first_offset, swap.end_offset)
        for row in EXTENT_ROW.iter_unpack(delta.appended):
            self.extents.append_row(row)
        for first, end in struct.iter_unpack("<qq", delta.dead):
            self.dead.add(first, end)
        if delta.dropped_below:
            self.extents.drop_below(delta.dropped_below)
            self.dead.drop_below(delta.dropped_below)

    def same_as(self, cluster: Cluster, text: str) -> bool:
        found = cluster.found(text)
        return (
            self.version == found.version
            and self.bounds
            == (found.log_start_offset, found.last_stable_offset, found.high_watermark)
            and self.extents.slice(0, len(self.extents))
            == found.extents.slice(0, len(found.extents))
            and (self.dead.firsts, self.dead.ends) == (found.dead.firsts, found.dead.ends)
        )


def _watch(cluster: Cluster, text: str) -> PartitionDelta:
    wanted = cluster.partition(text)
    return cluster.state.watch(key_of(wanted))


def _unwatch(cluster: Cluster, text: str) -> None:
    wanted = cluster.partition(text)
    cluster.state.unwatch(key_of(wanted))


def _deltas(cluster: Cluster) -> list[PartitionDelta]:
    changes = cluster.state.take_changes()
    return [change for change in changes if isinstance(change, PartitionDelta)]


def test_s3_a_replica_that_applies_deltas_equals_the_partition() -> None:
    cluster = run("topic a 2\ninit x\nput a-0 x3")
    replica = Replica(_watch(cluster, "a-0"))
    assert replica.same_as(cluster, "a-0")
    cluster.state.take_changes()
    for line, count in [
        ("put a-0 x10 1/0@0 tv2 -> 3", 1),
        ("put a-1 x10 1/0@0 tv2 -> 0", 0),
        ("put a-0 x1 -> 13", 1),
        ("put a-0 x10 1/0@0 tv2 -> 3", 0),  # a duplicate
        ("end2 x 1/0 abort -> 1/1", 1),
        ("put a-0 x10 1/1@0 tv2 -> 14", 1),
        ("delete-records a-0 5 -> 5", 1),
        ("delete-records a-0 4 -> 5", 0),
        ("delete-records a-0 20 -> 20", 1),
        ("init x -> 1/2", 1),
    ]:
        run(line, cluster)
        deltas = _deltas(cluster)
        assert len(deltas) == count, line
        for delta in deltas:
            replica.apply(delta)
        assert replica.same_as(cluster, "a-0"), line
    assert Replica(_watch(cluster, "a-0")).same_as(cluster, "a-0")


def test_watchers_are_counted() -> None:
    cluster = run("topic a 1")
    _watch(cluster, "a-0")
    _watch(cluster, "a-0")
    _unwatch(cluster, "a-0")
    run("put a-0 x1", cluster)
    assert len(_deltas(cluster)) == 1
    _unwatch(cluster, "a-0")
    run("put a-0 x1", cluster)
    assert _deltas(cluster) == []
    assert cluster.state.watched == {}


def test_s6_a_watcher_is_told_of_deletion_and_one_who_comes_late_too() -> None:
    cluster = run("topic a 1")
    wanted = cluster.partition("a-0")
    _watch(cluster, "a-0")
    run("delete-topic a -> NONE", cluster)
    (delta,) = _deltas(cluster)
    assert delta.is_deleted
    assert delta.partition == wanted
    late = cluster.state.watch(key_of(wanted))
    assert late.is_deleted
    assert late.is_snapshot


def test_a_watched_partition_that_comes_to_be_is_told_whole() -> None:
    cluster = run("topic a 1")
    assert _watch(cluster, "a-1").is_deleted
    wanted = CreatePartitionsTopic(name="a", partition_count=3)
    cluster.do("create_partitions", CreatePartitions(topics=[wanted]))
    (delta,) = _deltas(cluster)
    assert delta.is_snapshot
    assert not delta.is_deleted
    assert delta.partition.partition == 1


def test_s3_an_abort_lists_its_dead_ranges_once_touching_ones_merged() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x5 1/0@0 tv2
        put a-0 x5 1/0@5 tv2
        put a-0 x1
        put a-0 x5 1/0@10 tv2
    """)
    _watch(cluster, "a-0")
    cluster.state.take_changes()
    run("end2 x 1/0 abort", cluster)
    (delta,) = _deltas(cluster)
    assert list(struct.iter_unpack("<qq", delta.dead)) == [(0, 10), (11, 16)]
    assert delta.last_stable_offset == 16
    assert not delta.appended


def test_s14_a_replica_follows_a_merge_and_a_log_start_inside_an_extent() -> None:
    cluster = run("""
        topic a 1
        init x
        put a-0 x4 1/0@0 tv2
        put a-0 x3
        put a-0 x4 1/0@4 tv2
        put a-0 x3
    """)
    replica = Replica(_watch(cluster, "a-0"))
    cluster.state.take_changes()
    run("end2 x 1/0 abort -> 1/1\ndelete-records a-0 2 -> 2", cluster)
    merge(cluster, min_extents=2)
    deltas = _deltas(cluster)
    assert [len(delta.swaps) for delta in deltas] == [0, 0, 1]
    for delta in deltas:
        replica.apply(delta)
    assert replica.same_as(cluster, "a-0")
    assert list(replica.extents.base_offsets) == [4]
    assert len(replica.dead) == 0


class Unwanted:
    """Serves as the feed for a view whose deltas come from the test."""

    def want(self, view: PartitionView) -> None: ...

    def want_cluster(self) -> None: ...

    def note_use(self, view: PartitionView) -> None: ...


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["put", "begin", "abort", "commit"]), max_size=14),
    st.lists(
        st.sampled_from(["part", "put", "begin", "abort", "commit", "merge", "delete"]), max_size=14
    ),
    st.integers(1, 4),
)
def test_s3_a_view_is_shown_many_extents_in_parts(
    before: list[str], meanwhile: list[str], most: int
) -> None:
    """Anything may change between the parts. Each part has few extents, and together they make up the partition."""
    cluster = run("topic a 1\ninit x\ninit y")
    for step in before:
        _change(cluster, step)
    key = key_of(cluster.partition("a-0"))
    view = PartitionView(*key, Unwanted())
    with mock.patch.object(partitions, "SHOWN_EXTENTS", most):
        below = _show(view, _watch(cluster, "a-0"), most)
        cluster.state.take_changes()
        for step in [*meanwhile, *["part"] * 30]:
            if step != "part":
                _change(cluster, step)
                assert all(map(view.apply, _deltas(cluster)))
            elif below:
                below = _show(view, cluster.found("a-0").older_delta(below), most)
            assert view.is_current == view.has_been_current == (not below)
    found = cluster.found("a-0")
    assert view.version == found.version
    assert view.extents.columns() == found.extents.columns()
    assert view.dead.pairs() == found.dead.pairs()


def _show(view: PartitionView, part: PartitionDelta, most: int) -> int:
    """Apply a part. Return the offset below which the next one lies."""
    assert len(ExtentTable.from_columns(part.extents)) <= most
    assert view.apply(part)
    return part.older_below


def _change(cluster: Cluster, step: str) -> None:
    """Change the partition, if this is currently possible."""
    found = cluster.found("a-0")
    x = cluster.state.transactional_ids["x"]
    match step:
        case "put":
            cluster.put("a-0", 2)
        case "begin":
            flags = TRANSACTIONAL | ADDS_PARTITION
            cluster.put(
                "a-0", 2, producer=(x.producer_id, x.producer_epoch), sequence=0, flags=flags
            )
        case "abort" | "commit":
            run(f"end2 x {x.producer_id}/{x.producer_epoch} {step}", cluster)
        case "merge" if _plan(cluster, min_extents=2):
            merge(cluster, min_extents=2)
        case "delete":
            run(f"delete-records a-0 {found.last_stable_offset // 2}", cluster)
