"""Compares pieces, tasks and limits with a naive walk over the offsets."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.filters import Condition
from lacuna.pipeline.datasource.limits import Gate, limited
from lacuna.pipeline.datasource.planning import (
    Bucket,
    Division,
    ReadRange,
    count_offsets,
    offset_after,
    plan_tasks,
    split_counts,
)
from lacuna.pipeline.datasource.positions import Position
from lacuna.pipeline.datasource.progress import lag
from lacuna.pipeline.extents import PartitionLog

_BUCKET = Bucket("file:///nowhere", "cluster", False)


@dataclass(frozen=True)
class Made:
    """A log, and the offsets of its live and dead records."""

    log: PartitionLog
    live: list[int]
    dead: list[int]

    def offsets(self, is_committed: bool) -> list[int]:
        return self.live if is_committed else sorted(self.live + self.dead)


@st.composite
def logs(draw: st.DrawFn, topic: str = "t") -> Made:
    """Draws extents with different ages, live or dead, some with holes between them."""
    extents, dead = ExtentTable(), DeadRanges()
    live_offsets: list[int] = []
    dead_offsets: list[int] = []
    offset = draw(st.integers(0, 3))
    start = offset
    for index in range(draw(st.integers(0, 8))):
        offset += draw(st.sampled_from([0, 0, 3]))
        count, size = draw(st.integers(1, 5)), draw(st.integers(1, 100))
        time = draw(st.integers(0, 5))
        extents.append_row((1, index, 50, size, offset, offset + count, time, 1, 0, index + 1, 0))
        is_dead = draw(st.booleans())
        (dead_offsets if is_dead else live_offsets).extend(range(offset, offset + count))
        if is_dead:
            dead.add(offset, offset + count)
        offset += count
    offset += draw(st.sampled_from([0, 2]))
    return Made(_log(topic, start, offset, extents, dead), live_offsets, dead_offsets)


def _whole(count: int) -> Made:
    """Return a log with one extent."""
    extents = ExtentTable()
    extents.append_row((1, 0, 50, 10, 0, count, 0, 1, 0, 1, 0))
    return Made(_log("t", 0, count, extents, DeadRanges()), list(range(count)), [])


def _log(topic: str, start: int, end: int, extents: ExtentTable, dead: DeadRanges) -> PartitionLog:
    return PartitionLog(
        topic=topic,
        topic_id=topic.encode(),
        partition=0,
        version=1,
        log_start_offset=start,
        last_stable_offset=end,
        high_watermark=end,
        extents=extents,
        dead=dead,
    )


_EDGES = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted)


@given(logs(), _EDGES, st.booleans())
def test_s18_counts_and_slices(made: Made, edges: list[int], is_committed: bool) -> None:
    """Tests rules S14 and S18."""
    first, end = edges
    wanted = [each for each in made.offsets(is_committed) if first <= each < end]
    extents = made.log.extents
    slices = list(made.log.slices(first, end, is_committed=is_committed))
    found = [
        offset
        for start, stop in slices
        for index in range(start, stop)
        for offset in range(extents.base_offsets[index], extents.next_offsets[index])
    ]
    assert [each for each in found if first <= each < end] == wanted
    assert count_offsets(made.log, first, end, is_committed=is_committed) == len(wanted)


@given(logs(), _EDGES, st.integers(1, 50), st.booleans())
def test_s16_a_limit_ends_where_the_next_record_is(
    made: Made, edges: list[int], count: int, is_committed: bool
) -> None:
    """S16: as a result, a trigger also skips the hole after its last record."""
    first, end = edges
    wanted = [each for each in made.offsets(is_committed) if first <= each < end]
    expected = wanted[count] if count < len(wanted) else end
    assert offset_after(made.log, first, end, count, is_committed=is_committed) == expected


@given(
    logs(),
    _EDGES,
    st.none() | st.integers(1, 10) | st.just(10**18),
    st.none() | st.integers(1, 6),
    st.integers(-1, 5),
)
@example(_whole(10), [5, 5], 2, None, -1)
@example(_whole(10), [5, 5], None, None, -1)
def test_tasks_cover_each_offset_once(
    made: Made, edges: list[int], min_partitions: int | None, most: int | None, since: int
) -> None:
    division = Division(
        bucket=_BUCKET,
        condition=Condition(min_timestamp=since),
        is_committed=True,
        min_partitions=min_partitions,
        max_records=most,
    )
    tasks = plan_tasks([ReadRange(made.log, edges[0], edges[1])], division)
    found = []
    for task in tasks:
        offsets = [
            offset
            for piece in task.pieces
            for offset in range(piece.base_offset, piece.next_offset)
            if task.bounds.first_offset <= offset < task.bounds.end_offset
        ]
        assert offsets, "a task without anything to read"
        assert most is None or len(offsets) <= most
        extents = made.log.extents
        indexes = [extents.first_at_or_after(piece.base_offset) for piece in task.pieces]
        assert all(extents.max_timestamps[index] >= since for index in indexes)
        found += offsets
    if min_partitions is not None:
        assert len(tasks) >= min(min_partitions, len(found))
    extents = made.log.extents
    old = {
        offset
        for index in range(len(extents))
        if extents.max_timestamps[index] < since
        for offset in range(extents.base_offsets[index], extents.next_offsets[index])
    }
    assert found == [x for x in made.live if edges[0] <= x < edges[1] and x not in old]


def test_filters_that_no_offset_meets_leave_no_task() -> None:
    whole = ReadRange(_whole(10).log, 0, 10)
    for first, end in ((5, 5), (8, 3)):
        condition = Condition(first_offset=first, end_offset=end)
        division = Division(
            bucket=_BUCKET, condition=condition, is_committed=True, min_partitions=2
        )
        assert not plan_tasks([whole], division)


@pytest.mark.parametrize(
    ("sizes", "least", "most", "expected"),
    [
        ([100], 8, None, [8]),
        ([100, 100], None, None, [1, 1]),
        ([100, 100], 2, None, [1, 1]),
        ([90, 10], 10, None, [9, 1]),
        ([1000, 1, 1], 10, None, [8, 1, 1]),
        ([10, 10, 10], 4, None, [2, 1, 1]),
        ([3], 10, None, [3]),
        ([], 10, None, []),
        ([100, 7], None, 50, [2, 1]),
        ([100, 7], 2, 50, [2, 1]),
        ([100, 7], 6, 50, [5, 1]),
        ([5, 5], 10**18, None, [5, 5]),
    ],
)
def test_parts_are_divided_in_proportion(
    sizes: list[int], least: int | None, most: int | None, expected: list[int]
) -> None:
    """Spark's Kafka source divides them in the same way. If rounding gives too few, the largest are divided further."""
    assert split_counts(sizes, least, most) == expected


@given(logs("a"), logs("b"), st.integers(1, 30))
def test_a_limit_over_partitions(one: Made, other: Made, count: int) -> None:
    """Each partition with unread records gets a share, and all triggers together read everything."""
    made = {TopicPartition("a", 0): one, TopicPartition("b", 0): other}
    logs_ = {each: found.log for each, found in made.items()}
    firsts = {each: log.log_start_offset for each, log in logs_.items()}
    latest = {each: log.last_stable_offset for each, log in logs_.items()}
    for _ in range(100):
        if firsts == latest:
            break
        ends = limited(logs_, firsts, latest, count, is_committed=True)
        taken = {
            each: sum(firsts[each] <= x < ends[each] for x in found.live)
            for each, found in made.items()
        }
        left = {each: sum(x >= firsts[each] for x in found.live) for each, found in made.items()}
        assert all((taken[each] > 0) == (left[each] > 0) for each in made)
        assert sum(taken.values()) <= count + len(made)
        firsts = ends
    assert firsts == latest


def test_a_gate_opens_for_enough_or_in_time() -> None:
    partition = TopicPartition("a", 0)
    gate = Gate(10, 60)
    assert gate.opens({partition: 0}, {partition: 1}, 1000)  # the first trigger always
    assert not gate.opens({partition: 1}, {partition: 10}, 1001)
    assert gate.opens({partition: 1}, {partition: 11}, 1002)
    assert not gate.opens({partition: 11}, {partition: 12}, 1061)
    assert gate.opens({partition: 11}, {partition: 12}, 1062)
    assert Gate(None, 60).opens({}, {}, 0)


def test_offsets_as_json_in_one_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 2, TopicPartition("a", 0): 3}
    position = Position(offsets, {"b": "id-of-b"})
    found = position.as_json()
    assert list(found) == ["a", "b"]
    assert list(found["b"]) == ["2", "10", "id"]
    assert Position.of_json(found) == position


@pytest.mark.parametrize("latest", [None, "null", "{}"])
def test_no_lag_without_progress(latest: str | None) -> None:
    assert lag(None) is None
    assert lag({"sources": [{"endOffset": None, "latestOffset": latest}]}) is None


def test_lag_has_the_metrics_of_the_kafka_source() -> None:
    source = {"endOffset": '{"a": {"0": 5}}', "latestOffset": '{"a": {"0": 8, "1": 9}}'}
    found = lag({"sources": [{}, source]}, 1)
    assert found is not None
    assert found.partitions == {TopicPartition("a", 0): 3, TopicPartition("a", 1): 9}
    assert found.min_offsets_behind_latest == 3
    assert found.max_offsets_behind_latest == 9
    assert found.avg_offsets_behind_latest == 6
