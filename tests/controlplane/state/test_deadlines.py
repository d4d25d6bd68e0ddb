"""Compares deadlines with a plain dictionary, and counts what a tick of many partitions examines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.shared.batches import commit_of
from lacuna.controlplane.state.deadlines import Deadlines
from lacuna.controlplane.state.settings import RETENTION_SCAN
from lacuna.controlplane.v1.log_pb2 import SegmentId
from lacuna.controlplane.verbs import windows
from lacuna.controlplane.verbs.turn import Turn
from tests.controlplane.verbs.cluster import Cluster, add_batch

STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30) | st.none()), max_size=30)


@given(STEPS, st.lists(st.integers(0, 31), max_size=4), st.integers(1, 7), st.integers(0, 9))
def test_what_is_due_is_what_a_dictionary_says(
    steps: list[tuple[int, int | None]], looks: list[int], limit: int, shift_ms: int
) -> None:
    deadlines, model = Deadlines[int](), dict[int, int]()
    for now_ms in [*sorted(looks), 31]:
        deadlines.shift(shift_ms)
        model = {key: at_ms + shift_ms for key, at_ms in model.items()}
        for key, deadline_ms in steps:
            if deadline_ms is None:
                deadlines.discard(key)
                model.pop(key, None)
            else:
                deadlines.set(key, deadline_ms)
                model[key] = deadline_ms
            assert (key in deadlines) == (key in model)
        expected = [key for at_ms, key in sorted((at, key) for key, at in model.items())]
        expected = [key for key in expected if model[key] <= now_ms]
        assert deadlines.due(now_ms, 99) == expected
        some = deadlines.due(now_ms, limit)
        assert set(some) <= set(expected)
        assert len(some) == min(limit, len(expected))
        for key in some:
            deadlines.discard(key)
            del model[key]


def test_all_that_is_due_comes_however_few_a_look_takes() -> None:
    deadlines = Deadlines[int]()
    for key in range(10):
        deadlines.set(key, 100 - key)
        deadlines.set(key, 50 + key)
    came = []
    while some := deadlines.due(60, 3):
        came.extend(some)
        for key in some:
            deadlines.discard(key)
    assert sorted(came) == list(range(10))


def test_retention_looks_at_many_partitions_in_turn() -> None:
    cluster = Cluster()
    count = 2 * RETENTION_SCAN + 10
    cluster.create("a", count, retention_ms="1000")
    slices = []
    for index in range(count):
        given_slice = cluster.slice(f"a-{index}")
        add_batch(given_slice, timestamp=cluster.now_ms)
        slices.append(given_slice)
    segment = SegmentId(lease_id=cluster.lease_id, sequence=1)
    cluster.do("commit_segment", commit_of(segment, 999, slices))
    assert cluster.tick() + cluster.tick() + cluster.tick() == [], "a round"
    assert cluster.tick(2_000) == ["log_starts_moved"]
    left = [len(each.extents) for each in cluster.state.partitions.values()]
    assert left == [0] * RETENTION_SCAN + [1] * (count - RETENTION_SCAN)
    assert cluster.tick() + cluster.tick() == ["log_starts_moved"] * 2
    assert not any(len(each.extents) for each in cluster.state.partitions.values())
    assert cluster.tick() == []


def test_windows_expire_so_many_a_tick_and_each_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "MAX_PER_TICK", 4)
    cluster = Cluster()
    cluster.create("a", 2)
    for producer_id in range(5):
        for index in range(2):
            cluster.put(f"a-{index}", producer=(producer_id, 0), sequence=0)
    cluster.now_ms += 26 * 3_600_000
    left = []
    for _ in range(3):
        turn = Turn(cluster.state, cluster.context())
        windows.tick_producers(turn)
        cluster.decide(turn.end(None))
        left.append(sum(len(each.producers) for each in cluster.state.partitions.values()))
    assert left == [6, 2, 0]
    turn = Turn(cluster.state, cluster.context())
    windows.tick_producers(turn)
    assert turn.records == []
    assert not list(cluster.state.windows.oldest())
