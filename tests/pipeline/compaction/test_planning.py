"""Tests the division of plans into tasks: nothing is lost or repeated, and sizes are respected."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.base.errors import UserError
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable, fence_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import CompactionRange
from lacuna.logstore.objects.prices import AMAZON_S3, GET, PUT, Prices
from lacuna.pipeline.compaction.planning import (
    LEAST_TASK_BYTES,
    WANTED_TASKS,
    FoundRange,
    PlannedRange,
    Unit,
    fitting_task_bytes,
    make_units,
)
from lacuna.pipeline.compaction.rewriting import first_sequence
from lacuna.pipeline.compaction.settings import CompactionSettings, RewriteSettings
from lacuna.pipeline.errors import PipelineError

NOW_MS = 1_000_000
TOPIC_ID = b"t" * 16


def _range(
    sizes: Sequence[int],
    partition: int = 0,
    *,
    aborted: Sequence[bool] = (),
    timestamps: Sequence[int] = (),
    **fields: Any,
) -> CompactionRange:
    """Return extents of ten offsets each, from offset 100."""
    table, dead = ExtentTable(), DeadRanges()
    for index, size in enumerate(sizes):
        base = 100 + 10 * index
        timestamp = timestamps[index] if timestamps else NOW_MS
        table.append_row((1, index, 0, size, base, base + 10, timestamp, -1, -1, 0, 0))
        if aborted and aborted[index]:
            dead.add(base, base + 10)
    columns = table.columns()
    given_fields: dict[str, Any] = {
        "cleanup_policy": "delete",
        "retention_ms": -1,
        "log_start_offset": 100,
        **fields,
    }
    return CompactionRange(
        partition=TopicPartition(topic_id=TOPIC_ID, partition=partition),
        first_offset=100,
        end_offset=100 + 10 * len(sizes),
        extents=columns,
        dead=dead.pairs(),
        fence=fence_of(columns),
        **given_fields,
    )


def _planned(sizes: Sequence[int], partition: int = 0, **fields: Any) -> PlannedRange:
    (found,) = _pieces(sizes, 1 << 40, partition, **fields)
    return found


def _pieces(
    sizes: Sequence[int], task_bytes: int, partition: int = 0, **fields: Any
) -> list[PlannedRange]:
    return list(FoundRange("topic", _range(sizes, partition, **fields), NOW_MS).pieces(task_bytes))


def _offsets(unit: Unit) -> list[tuple[int, int]]:
    """Return (partition, base offset) of each piece that the tasks read, in order."""
    return [
        (share.partition, piece.base_offset)
        for task in unit.tasks
        for share in task
        for piece in share.pieces()
    ]


@given(st.lists(st.tuples(st.integers(1, 99), st.booleans()), max_size=30))
def test_s18_what_is_live_is_what_no_dead_range_holds(extents: list[tuple[int, bool]]) -> None:
    sizes = [size for size, _ in extents]
    aborted = [is_dead for _, is_dead in extents]
    found = _planned(sizes, aborted=aborted)
    live = [100 + 10 * index for index, is_dead in enumerate(aborted) if not is_dead]
    assert list(found.live.base_offsets) == live
    assert found.live_bytes == sum(size for size, is_dead in extents if not is_dead)
    assert found.aborted_bytes == sum(size for size, is_dead in extents if is_dead)


@given(
    st.lists(st.lists(st.integers(1, 60), max_size=20), max_size=12),
    st.integers(1, 200),
    st.sampled_from(["delete", "compact"]),
)
def test_tasks_read_everything_once_and_are_no_larger_than_asked(
    partitions: list[list[int]], task_bytes: int, policy: str
) -> None:
    ranges = [
        _planned(sizes, number, cleanup_policy=policy) for number, sizes in enumerate(partitions)
    ]
    units = make_units(ranges, task_bytes)
    assert sorted(found.partition for unit in units for found in unit.ranges) == list(
        range(len(partitions))
    )
    read = [each for unit in units for each in _offsets(unit)]
    assert sorted(read) == [
        (number, 100 + 10 * index)
        for number, sizes in enumerate(partitions)
        for index in range(len(sizes))
    ]
    for unit in units:
        for task in unit.tasks:
            assert len(task) == len({share.range_index for share in task})
            largest = max(size for share in task for size in share.extents.sizes)
            assert sum(share.size for share in task) <= max(task_bytes, largest)
            for share in task:
                found = unit.ranges[share.range_index]
                assert (share.topic_id, share.partition) == found.key


def test_one_huge_partition_that_is_cleaned_is_one_unit_of_many_tasks() -> None:
    (unit,) = make_units([_planned([10] * 100, cleanup_policy="compact")], 100)
    assert [sum(share.size for share in task) for task in unit.tasks] == [100] * 10
    assert _offsets(unit) == [(0, 100 + 10 * index) for index in range(100)]


def test_no_crumb_is_left_behind_pieces_of_equal_size() -> None:
    assert [piece.live_bytes for piece in _pieces([7] * 35, 168)] == [126, 119]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 200),
)
def test_any_other_huge_partition_is_pieces_that_are_swapped_alone(
    extents: list[tuple[int, bool]], task_bytes: int
) -> None:
    sizes = [size for size, _ in extents]
    aborted = [is_dead for _, is_dead in extents]
    whole = _range(sizes, aborted=aborted, has_more=True)
    pieces = _pieces(sizes, task_bytes, aborted=aborted, has_more=True)
    table = ExtentTable.from_columns(whole.extents)
    assert (pieces[0].first_offset, pieces[-1].end_offset) == (100, whole.end_offset)
    for before, after in pairwise(pieces):
        assert before.end_offset == after.first_offset
        assert not before.has_more
    assert pieces[-1].has_more
    for piece in pieces:
        assert piece.fence == table.fence(*table.range_of(piece.first_offset, piece.end_offset))
        largest = max(piece.live.sizes, default=0)
        assert piece.live_bytes <= max(task_bytes, largest)
    assert sum(piece.live_bytes for piece in pieces) + sum(
        piece.aborted_bytes for piece in pieces
    ) == sum(sizes)
    units = make_units(pieces, task_bytes)
    assert all(len(unit.ranges) == 1 for unit in units)  # a swap names a partition once


def test_small_partitions_share_a_task_and_large_ones_come_first() -> None:
    sizes = [[10] * 3, [10] * 6, [10] * 2, [10]]
    units = make_units([_planned(each, number) for number, each in enumerate(sizes)], 60)
    assert [[found.partition for found in unit.ranges] for unit in units] == [[1], [0], [2, 3]]
    units = make_units([_planned(each, number) for number, each in enumerate(sizes)], 50)
    assert [[found.partition for found in unit.ranges] for unit in units] == [[1], [0, 2], [3]]
    assert [len(unit.tasks) for unit in units] == [2, 1, 1]


def test_a_small_plan_is_cut_into_small_tasks_and_a_large_one_as_asked() -> None:
    most = 16 * LEAST_TASK_BYTES
    sizes = [1, WANTED_TASKS * LEAST_TASK_BYTES, 2 * WANTED_TASKS * LEAST_TASK_BYTES, 1 << 60]
    assert [fitting_task_bytes(each, most) // LEAST_TASK_BYTES for each in sizes] == [1, 1, 2, 16]
    assert fitting_task_bytes(1 << 60, 1) == fitting_task_bytes(1, 1) == 1


def test_what_is_aborted_whole_needs_no_task() -> None:
    (unit,) = make_units([_planned([10, 10], aborted=[True, True])], 100)
    assert not unit.tasks
    assert unit.ranges[0].aborted_bytes == 20


@pytest.mark.parametrize(
    ("policy", "retention_ms", "expired"),
    [("delete", 1000, 2), ("compact,delete", 1000, 2), ("compact", 1000, 0), ("delete", -1, 0)],
)
def test_what_retention_is_about_to_take_is_not_read(
    policy: str, retention_ms: int, expired: int
) -> None:
    """Only extents at the front are skipped, since Kafka deletes whole segments. -1 means no timestamp."""
    old, young = NOW_MS - 1001, NOW_MS - 1000
    found = _planned(
        [1, 2, 4, 8, 16],
        timestamps=[old, old, young, old, -1],
        cleanup_policy=policy,
        retention_ms=retention_ms,
    )
    assert found.expired_bytes == sum([1, 2][:expired])
    assert len(found.live) == 5 - expired
    assert found.log_start_offset == (found.live.base_offsets[0] if expired else 0)


def test_expired_records_behind_the_log_start_wait() -> None:
    """If the range does not begin at the log start, earlier records may be younger."""
    found = _planned([1, 2], timestamps=[0, 0], retention_ms=1, log_start_offset=50)
    assert found.expired_bytes == 0


@pytest.mark.parametrize(
    ("fields", "is_cleaned", "drops_tombstones"),
    [
        ({"cleanup_policy": "delete"}, False, False),
        ({"cleanup_policy": "compact"}, True, True),
        ({"cleanup_policy": "compact,delete"}, True, True),
        ({"cleanup_policy": "compact", "log_start_offset": 0}, True, False),
        ({"cleanup_policy": "compact", "log_start_offset": 0, "compacted_to": 120}, False, False),
    ],
)
def test_tombstones_go_only_where_nothing_older_can_lie_below(
    fields: dict[str, Any], is_cleaned: bool, drops_tombstones: bool
) -> None:
    found = _planned([1, 2], delete_retention_ms=7, **fields)
    assert (found.is_cleaned, found.drops_tombstones) == (is_cleaned, drops_tombstones)
    assert found.delete_horizon == (NOW_MS + 7 if is_cleaned else -1)


def test_waste_is_the_worst_of_three() -> None:
    found = _planned([100, 300, 600], aborted=[False, True, False])
    assert found.waste(1000, 3, 50) == 0.3  # aborted bytes
    assert found.waste(1000, 4, 200) == 0.3  # one of four is small: 0.25
    assert found.waste(1000, 4, 700) == 0.5  # two of four are small
    keyed = _planned([100, 900], cleanup_policy="compact", compacted_to=110)
    assert keyed.waste(1000, 2, 1) == 0.9  # not yet looked at by key


def test_attempts_write_under_numbers_of_their_own() -> None:
    assert first_sequence(8) - first_sequence(7) == 1 << 16
    assert first_sequence(0) > 0
    with pytest.raises(PipelineError, match="restart it"):
        first_sequence(1 << 32)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"batch_bytes": 1 << 21}, "choose a size from 1024"),
        ({"segment_bytes": 1}, "or more"),
        ({"level": 3}, "specify one with --codec"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        CompactionSettings(rewrite=RewriteSettings(**settings))  # type: ignore[arg-type]


def test_prices_are_one_table_that_a_file_replaces(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"put_per_1000": 1.0}')
    prices = Prices.load(file, AMAZON_S3)
    assert prices.of({PUT: 2000, GET: 1000}) == 2.0004
    assert Prices.load(file, None) == prices
    assert prices.source == str(file)
    for wrong in ("[]", "{", '{"put": 1}', '{"put_per_1000": -1}', '{"put_per_1000": "x"}'):
        file.write_text(wrong)
        with pytest.raises(UserError, match=str(file)):
            Prices.load(file, None)
