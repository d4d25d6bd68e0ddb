"""Compares the tables in the state with plain dictionaries: deadlines, segments, ages of ids, shares of quotas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import commit_of
from lacuna.controlplane.state import segments
from lacuna.controlplane.state.deadlines import Deadlines
from lacuna.controlplane.state.id_ages import IdAges
from lacuna.controlplane.state.segments import References, SegmentTable
from lacuna.controlplane.state.settings import HOUR_MS, RETENTION_SCAN
from lacuna.controlplane.state.shares import Shares
from lacuna.controlplane.v1.log_pb2 import SegmentId
from lacuna.controlplane.verbs import windows
from lacuna.controlplane.verbs.turn import Turn
from tests.controlplane.verbs.cluster import Cluster, add_batch
from tests.controlplane.verbs.script import run

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


KEYS = st.tuples(st.integers(1, 2), st.integers(0, 6))
SEGMENT_STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "release", "forget"]), KEYS), max_size=60
)


@given(SEGMENT_STEPS)
def test_rows_are_what_dictionaries_say(steps: list[tuple[str, tuple[int, int]]]) -> None:
    table, sizes, live = SegmentTable(), dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for now_ms, (step, key) in enumerate(steps):
        if step == "add" and key not in sizes:
            extents = now_ms % 3
            table.add(key, now_ms, extents, now_ms)
            sizes[key], live[key] = now_ms, extents
        elif step == "release" and live.get(key):
            table.release([References([key[0]], [key[1]])], now_ms)
            live[key] -= 1
        elif step == "forget":
            table.forget(key)
            if live.get(key) == 0:
                del sizes[key], live[key]
        assert [tuple(row) for row in table] == [(k, sizes[k], live[k]) for k in sorted(sizes)]
        assert len(table) == len(sizes)
        assert all(table.size_of(k) == sizes[k] for k in sizes)
        assert (key in table) == (key in sizes)
        again = SegmentTable()
        for rows in table.rows(2):
            again.add_rows(rows)
        assert [tuple(row) for row in again] == [tuple(row) for row in table]
        assert set(table.replaced) == {k for k in live if not live[k]}


def test_what_is_not_there_cannot_be_released_nor_added_twice() -> None:
    table = SegmentTable()
    table.add((1, 5), 10, 1, 0)
    for key in [(1, 4), (2, 5)]:
        with pytest.raises(KeyError):
            table.release([References([key[0]], [key[1]])], 0)
    with pytest.raises(ValueError, match="sequence 5 was already added"):
        table.add((1, 5), 10, 1, 0)
    table.release([References([1], [5])], 7)
    table.forget((1, 5))
    with pytest.raises(KeyError):
        table.size_of((1, 5))


def test_many_references_wait_and_are_released_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "RELEASED_AT_ONCE", 3)
    table = SegmentTable()
    for sequence in (1, 2):
        table.add((1, sequence), 10, 2, 0)
    table.release([References([1, 1], [1, 2]), References([1, 1], [1, 2])], 5)
    assert len(table.releasing) == 4
    assert not table.replaced, "what waits may not be collected"
    table.release_waiting(3, 6)
    assert (len(table.releasing), table.replaced) == (1, {(1, 2): 6})
    table.release_waiting(3, 7)
    assert (len(table.releasing), table.replaced) == (0, {(1, 2): 6, (1, 1): 7})


DAY = 24


def test_an_id_is_old_a_day_after_its_hour() -> None:
    ages = IdAges()
    ages.note(1, 5 * HOUR_MS)
    ages.note(2, 5 * HOUR_MS + 1)
    ages.note(3, 7 * HOUR_MS)
    for producer_id, hour in ((1, 5), (2, 5), (3, 7), (99, 7)):
        last_ms = (hour + 1 + DAY) * HOUR_MS
        assert not ages.is_old(producer_id, last_ms - 1)
        assert ages.is_old(producer_id, last_ms)
    assert ages.is_old(0, 5 * HOUR_MS), "from before anything was noted"


def test_no_more_hours_are_kept_than_matter() -> None:
    ages = IdAges()
    for hour in range(100):
        ages.note(hour + 1, hour * HOUR_MS)
    assert len(ages.hours) == DAY + 2
    assert ages.is_old(1, 99 * HOUR_MS)
    assert not ages.is_old(100, 99 * HOUR_MS)
    assert not ages.is_old(76, 99 * HOUR_MS)


def test_who_was_forgotten_is_told_apart_from_who_is_new() -> None:
    """S12: also after a restart. The error is for the agent, which waits for a new producer's first batches."""
    cluster = run("""
        topic a 2
        init -                                 -> 1/0
        put a-0 x1 1/0@0                       -> 0
        put a-1 x1 1/0@5 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
        clock +93600000                        -> producers_expired
        init -                                 -> 2/0
    """)
    cluster.state = machine.restore([machine.snapshot(cluster.state)])
    run(
        """
        put a-0 x1 1/0@1 follows               -> UNKNOWN_PRODUCER_ID
        put a-0 x1 2/0@1 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
        put a-0 x1 1/0@1                       -> 1
        put a-0 x1 1/0@3 follows               -> OUT_OF_ORDER_SEQUENCE_NUMBER
    """,
        cluster,
    )


QUOTA = ("producer_byte_rate", (("user", "a"),))


def rounds(demands: list[float], count: int = 8) -> list[float]:
    """Return each agent's final share if its clients demand this much of the quota per second."""
    shares = Shares()
    given_now = [0.25] * len(demands)
    for number in range(count):
        for agent, demand in enumerate(demands):
            used = min(demand, given_now[agent])
            now_ms = 1000 * number + agent
            is_short = demand > given_now[agent]
            given_now[agent] = shares.ask(QUOTA, agent, used, is_short, now_ms)
            assert number == 0 or sum(given_now) <= 1 + 1e-9, "never more than the quota"
    return given_now


@pytest.mark.parametrize(
    ("demands", "served"),
    [
        ([9.0], [1.0]),
        ([9.0, 9.0], [0.5, 0.5]),
        ([9.0, 0.1], [0.86, 0.1]),
        ([0.1, 9.0, 9.0], [0.1, 0.43, 0.43]),
        ([0.2, 0.2], [0.2, 0.2]),
        ([9.0, 0.0], [0.94, 0.0]),
    ],
)
def test_who_waits_gets_what_the_others_leave(demands: list[float], served: list[float]) -> None:
    found = [min(*each) for each in zip(demands, rounds(demands), strict=True)]
    assert found == pytest.approx(served, abs=0.02)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6))
def test_nearly_all_of_a_quota_is_used_if_it_is_wanted(demands: list[float]) -> None:
    found = [min(*each) for each in zip(demands, rounds(demands, 12), strict=True)]
    assert sum(found) >= min(1.0, sum(demands)) * 0.75


def test_what_an_agent_had_that_is_gone_is_shared_out_again() -> None:
    shares = Shares()
    for now_ms in range(0, 5000, 1000):
        for agent in range(2):
            shares.ask(QUOTA, agent, 0.5, is_short=True, now_ms=now_ms)
    assert shares.ask(QUOTA, 0, 0.5, is_short=True, now_ms=8000) == pytest.approx(1.0)
