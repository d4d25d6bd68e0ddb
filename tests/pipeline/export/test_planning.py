"""Tests ranges, tasks and folders as pure functions."""

import pytest

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.pipeline.errors import DataLossError
from lacuna.pipeline.export.layout import time_folder
from lacuna.pipeline.export.planning import plan_ranges, plan_tasks
from lacuna.pipeline.export.runs import changed_columns
from lacuna.pipeline.extents import PartitionLog


def _log(partition: int, extents: int, *, size: int = 100, start: int = 0) -> PartitionLog:
    """Return extents of ten offsets each."""
    table = ExtentTable()
    for number in range(extents):
        for name, value in {
            "lease_ids": 1,
            "sequences": number,
            "positions": 0,
            "sizes": size,
            "base_offsets": number * 10,
            "next_offsets": number * 10 + 10,
            "max_timestamps": 0,
            "producer_ids": 0,
            "producer_epochs": 0,
            "transactions": 0,
            "flags": 0,
        }.items():
            getattr(table, name).append(value)
    return PartitionLog(
        topic="t",
        topic_id=b"t" * 16,
        partition=partition,
        version=1,
        log_start_offset=start,
        last_stable_offset=extents * 10,
        high_watermark=extents * 10,
        extents=table,
        dead=DeadRanges(),
    )


def test_large_partitions_are_split_and_small_ones_share_a_task() -> None:
    logs = [_log(0, 1), _log(1, 7), _log(2, 1), _log(3, 0)]
    ranges = plan_ranges(logs, {}, allow_loss=False)
    assert ranges == {0: (0, 10), 1: (0, 70), 2: (0, 10), 3: (0, 0)}
    tasks = plan_tasks(logs, ranges, 300)
    shape = [[(part.partition, len(part.pieces)) for part in task.slices] for task in tasks]
    assert shape == [[(0, 1), (1, 2)], [(1, 3)], [(1, 2), (2, 1)]]
    assert [task.index for task in tasks] == [0, 1, 2]
    offsets = [
        piece.base_offset
        for task in tasks
        for part in task.slices
        for piece in part.pieces
        if part.partition == 1
    ]
    assert offsets == [0, 10, 20, 30, 40, 50, 60]


def test_a_piece_that_is_larger_than_a_task_is_one() -> None:
    logs = [_log(0, 2, size=1000)]
    tasks = plan_tasks(logs, plan_ranges(logs, {}, allow_loss=False), 300)
    assert [len(task.slices[0].pieces) for task in tasks] == [1, 1]


def test_ranges_begin_where_the_last_run_ended() -> None:
    logs = [_log(0, 3), _log(1, 2, start=5), _log(2, 1)]
    assert plan_ranges(logs, {0: 30, 1: 7}, allow_loss=False) == {
        0: (30, 30),
        1: (7, 20),
        2: (0, 10),  # a partition that is new
    }
    with pytest.raises(DataLossError, match=r"partitions 1 \(2 to 4\)"):
        plan_ranges(logs, {0: 30, 1: 2}, allow_loss=False)
    assert plan_ranges(logs, {0: 30, 1: 2}, allow_loss=True)[1] == (5, 20)
    assert plan_ranges(logs, {}, allow_loss=False)[1] == (5, 20)


@pytest.mark.parametrize(
    ("by", "hour", "folder"),
    [
        ("none", 5, ""),
        ("day", 0, "day=1970-01-01/"),
        ("day", -1, "day=1969-12-31/"),
        ("hour", 25, "day=1970-01-02/hour=01/"),
        ("day", None, "day=__HIVE_DEFAULT_PARTITION__/"),
    ],
)
def test_folders(by: str, hour: int | None, folder: str) -> None:
    assert time_folder(by, hour) == folder


def test_columns_that_changed() -> None:
    assert changed_columns({"a": "int64", "b": "string"}, {"b": "string", "c": "bool"}) == ""
    assert changed_columns({"a": "int64"}, {"a": "string"}) == "a was int64 and would be string"
    assert (
        changed_columns({"a": "binary"}, {"a.b": "int64"}) == "a was binary and would have fields"
    )
    assert changed_columns({"a.b": "int64"}, {"a": "binary"}) == "a had fields and would be binary"
    assert changed_columns({"a.b": "int64"}, {"a.b": "int64", "a.c": "bool"}) == ""
