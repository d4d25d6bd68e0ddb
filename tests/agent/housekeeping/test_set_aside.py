"""An object that is missing or damaged, or cannot be deleted, does not affect others."""

from collections.abc import Iterable, Iterator, Sequence

import pytest
from confluent_kafka import Producer

from lacuna.agent.housekeeping import collecting, merging, service
from lacuna.agent.housekeeping.set_aside import SetAside
from lacuna.logstore.objects import (
    MemoryStore,
    NotDeletedError,
    ObjectNotFoundError,
    ObjectStoreError,
    StoreMisconfiguredError,
)
from lacuna.logstore.objects.store import RangeRead, WritableBuffer, get_each
from lacuna.logstore.segments import SegmentId, segment_key, segments_prefix
from lacuna.logstore.segments.merge import LiveRange, MergedRun, merge_ranges
from lacuna.testing import Cluster
from tests.agent.housekeeping.test_housekeeping import GRACE_MS, PARTS, housekeeping, read, write


class Stricken(MemoryStore):
    """A store in which some objects are missing or damaged, or can never be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()
        self.damaged: set[str] = set()
        self.kept: set[str] = set()

    def get(self, key: str, position: int, size: int) -> bytearray:
        if key in self.missing:
            raise ObjectNotFoundError(key)
        data = super().get(key, position, size)
        if key in self.damaged:
            data[-1] ^= 1
        return data

    def get_into(
        self, reads: Sequence[RangeRead], buffer: WritableBuffer
    ) -> list[ObjectStoreError | None]:
        return get_each(self, reads, buffer)

    def delete(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        super().delete(key for key in keys if key not in self.kept)
        left = {key: StoreMisconfiguredError("it is locked") for key in keys if key in self.kept}
        if left:
            raise NotDeletedError(left)


@pytest.fixture
def store() -> Stricken:
    return Stricken()


@pytest.fixture
def cluster(store: Stricken) -> Iterator[Cluster]:
    """A cluster that merges and collects only on a test's request."""
    with Cluster(parts=PARTS, open_store=lambda: store) as cluster:
        yield cluster


def produced(cluster: Cluster, name: str, count: int) -> tuple[str, list[str]]:
    """Create a topic whose records are flushed one by one, and return its name and the object of each record."""
    topic, store = cluster.create_topic(name), cluster.embedded.store
    prefix = segments_prefix(cluster.embedded.running.runtime.cluster_id)
    before = {info.key for info in store.list(prefix)}
    write(Producer({"bootstrap.servers": cluster.bootstrap}), topic, 0, count)
    return topic, [info.key for info in store.list(prefix) if info.key not in before]


def extents(cluster: Cluster, topic: str) -> int:
    return len(cluster.explain(topic, 0).lines)


@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_an_object_that_cannot_be_merged_costs_itself_only(
    cluster: Cluster, store: Stricken, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S19: other partitions are merged, and so are the extents of its partition before and after it."""
    stricken, objects = produced(cluster, "stricken", 24)
    others = [produced(cluster, name, 12)[0] for name in ("before", "behind")]
    setattr(store, what, {objects[10]})
    keeping = housekeeping(cluster)
    for _ in range(3):
        cluster.run(keeping.merge())
    assert [extents(cluster, topic) for topic in others] == [1, 1]
    assert extents(cluster, stricken) == 3
    assert caplog.text.count(f"merging will not retry {objects[10]} for 30 s") == 1
    assert keeping.metrics.partitions_failed == 1
    assert keeping.metrics.merges_failed == 0
    assert keeping.metrics.last_failure.startswith("merging: ")
    assert keeping.set_aside() == {"merging": 1, "cleaning": 0, "collection": 0}
    setattr(store, what, set())
    assert [record[0] for record in read(cluster, stricken, "read_committed")] == [*range(24)]


def test_a_mistake_of_ours_costs_one_partition_only(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = produced(cluster, "one", 12)
    other, _ = produced(cluster, "other", 12)
    first: list[object] = []

    def mistaken(ranges: Iterable[LiveRange], end_offset: int) -> Iterator[MergedRun]:
        if not first:
            first.append(None)
            raise IndexError("nobody thought of it")
        return merge_ranges(ranges, end_offset)

    monkeypatch.setattr(merging, "merge_ranges", mistaken)
    cluster.run(housekeeping(cluster).merge())
    assert sorted(extents(cluster, topic) for topic in (one, other)) == [1, 12]
    assert "unexpected error in merging; please report it" in caplog.text


def collectable(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return merged objects that can be deleted, more than fit into one plan."""
    monkeypatch.setattr(collecting, "SEGMENTS_A_PLAN", 5)
    monkeypatch.setattr(service, "SEGMENTS_A_PLAN", 5)
    _, objects = produced(cluster, "merged", 12)
    cluster.run(housekeeping(cluster).merge())
    cluster.advance(GRACE_MS)
    return objects


def test_an_object_that_cannot_be_deleted_costs_itself_only(
    cluster: Cluster, store: Stricken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest object used to be in each plan, so no plan was ever confirmed."""
    objects = collectable(cluster, monkeypatch)
    store.kept = {objects[0]}
    keeping = housekeeping(cluster)
    cluster.run(keeping.collect())
    assert [key for key in objects if key in {info.key for info in store.list()}] == objects[:1]
    assert keeping.metrics.objects_deleted == 11
    assert keeping.metrics.deletions_failed == 1
    assert "it is locked" in keeping.metrics.last_failure
    assert keeping.set_aside() == {"merging": 0, "cleaning": 0, "collection": 1}


def test_a_store_that_deletes_nothing_is_asked_again_in_the_next_round(
    cluster: Cluster, store: Stricken, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = collectable(cluster, monkeypatch)
    store.kept = set(objects)
    keeping = housekeeping(cluster)
    cluster.run(keeping.collect())
    assert keeping.metrics.deletions_failed == 5
    store.kept = set()
    cluster.run(keeping.collect())
    assert keeping.metrics.objects_deleted == 7


def test_a_lease_that_cannot_be_swept_costs_itself_only(cluster: Cluster, store: Stricken) -> None:
    """The lease is remembered, so that the sweep is tried again."""
    left = []
    for _ in range(2):
        lease = cluster.embedded.agents[0].context.lease
        left.append(segment_key(lease.cluster_id, SegmentId(lease.lease_id, 10**6)))
        store.put(left[-1], [b"never committed"])
        cluster.restart()
    store.kept = {left[0]}
    cluster.advance(GRACE_MS)
    keeping = housekeeping(cluster)
    cluster.run(keeping.collect())
    assert [key in {info.key for info in store.list()} for key in left] == [True, False]
    assert keeping.metrics.uncommitted_deleted == 1
    assert len(cluster.embedded.running.runtime.state.ended_leases) == 1


def test_what_fails_again_and_again_is_left_alone_for_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    aside: SetAside[int] = SetAside("a job")
    now, pauses = 0.0, []
    for _ in range(10):
        aside.add(7, "item 7", ValueError("it fails"), now)
        assert aside.at(now) == [7]
        began = now
        while aside.at(now):
            now += 1.0
        pauses.append(now - began)
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert "a job will not retry item 7 for 3600 s: it fails" in caplog.text
    assert len(aside) == 1
    assert aside.at(now + 3601) == []
    assert len(aside) == 0


def test_no_more_is_left_alone_than_can_be_remembered() -> None:
    aside: SetAside[int] = SetAside("a job")
    for item in range(1500):
        aside.add(item, str(item), ValueError(), 0.0)
    assert aside.at(1.0) == [*range(500, 1500)]
    aside.discard(500)
    assert len(aside) == 999
