"""Tests that a snapshot consists of parts of bounded size, which restore the same state as a single message."""

from itertools import pairwise

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.state import segments, snapshot
from lacuna.controlplane.state.groups import offsets
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics, TopicPartition
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.controlplane.v1.snapshot_pb2 import StateSnapshot
from tests.controlplane.verbs.cluster import Cluster, init_of
from tests.controlplane.verbs.script import run


def filled() -> Cluster:
    """Return a state with some of everything, none of which fits into one piece of two rows."""
    cluster = Cluster()
    topic_id = cluster.create("a", 5)
    other_id = cluster.create("b", 2)
    for number in range(5):
        cluster.put("a-0", producer=(number + 100, 0), sequence=0)
        cluster.put("b-0")
        cluster.put("a-1")
        wanted = init_of(f"t{number}", 9_000)
        cluster.do("init_producer_id", wanted)
        committed = [
            CommittedOffset(partition=TopicPartition(topic_id=topic_id, partition=index), offset=1)
            for index in range(5)
        ]
        commit = OffsetCommit(group_id=f"g{number}", generation_id=-1, offsets=committed)
        cluster.do("offset_commit", commit)
    cluster.do("delete_topics", DeleteTopics(topic_ids=[other_id]))
    cluster.tick()
    return cluster


def test_parts_give_the_state_that_one_message_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "RELEASED_AT_ONCE", 2)
    cluster = filled()
    whole = machine.snapshot(cluster.state)
    monkeypatch.setattr(snapshot, "PART_BYTES", 300)
    monkeypatch.setattr(snapshot, "PIECE_ROWS", 2)
    monkeypatch.setattr(offsets, "_PIECE_OFFSETS", 2)
    parts = list(machine.snapshot_parts(cluster.state))
    monkeypatch.undo()
    assert machine.snapshot(machine.restore(parts)) == whole
    assert machine.snapshot(machine.restore((b"".join(parts),))) == whole
    head, *others = parts
    assert StateSnapshot.FromString(head).cluster_id
    assert len(others) > 5
    assert max(map(len, others)) <= 300
    assert all(len(one) + len(next_) > 200 for one, next_ in pairwise(others)), "none is tiny"


def test_a_large_partition_goes_on_in_the_next_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = run("topic a 1")
    for _ in range(5):
        cluster.put("a-0")
    monkeypatch.setattr(snapshot, "PART_BYTES", 1)
    monkeypatch.setattr(snapshot, "PIECE_ROWS", 2)
    read = [StateSnapshot.FromString(part) for part in machine.snapshot_parts(cluster.state)]
    rows = [len(topic.partitions[0].extents.sizes) for each in read for topic in each.topics]
    assert rows == [2, 2, 1]
    assert sum(len(each.segments.sequences) for each in read) == 5
