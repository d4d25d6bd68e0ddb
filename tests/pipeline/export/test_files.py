"""Tests ranges, tasks, folders, rows and files, without a cluster."""

import datetime
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.pipeline.errors import DataLossError, DestinationError, ExportRunningError
from lacuna.pipeline.export import files
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.files import FileSettings, FileWriter
from lacuna.pipeline.export.folder import FolderDestination
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.planning import plan_ranges, plan_tasks
from lacuna.pipeline.export.rows import RowMaker
from lacuna.pipeline.export.runs import RunLog, RunRecord, changed_columns
from lacuna.pipeline.extents import PartitionLog

_HOUR = 3_600_000
_DAY = 24 * _HOUR
_NULL = "__HIVE_DEFAULT_PARTITION__"


def _rows(*timestamps: int, first_offset: int = 0, value: bytes = b"v") -> pa.RecordBatch:
    """Return a record for each timestamp (ms), as a task creates them from a stored batch."""
    records = tuple(
        NewRecord(offset_delta=number, timestamp=moment, value=value)
        for number, moment in enumerate(timestamps)
    )
    builder = ColumnBuilder(headers=True)
    assert not list(builder.read(BatchToWrite(records=records, base_offset=first_offset).encode()))
    columns = builder.take()
    assert columns is not None
    rows, misfits = RowMaker(Layout(), 3).rows(columns)
    assert misfits == []
    return rows


def _writer(root: Path, **settings: Any) -> FileWriter:
    made = FileSettings(staged="_staging", final="final", **settings)
    return FileWriter(FolderDestination(root), made, 3)


def test_times_that_are_none_or_out_of_range_are_null(tmp_path: Path) -> None:
    rows = _rows(0, -1, -2, 2**60, -(2**60))
    assert [
        None if row is None else row.replace(tzinfo=None)
        for row in rows.column("timestamp").to_pylist()
    ] == [
        datetime.datetime(1970, 1, 1),  # noqa: DTZ001
        None,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 998000),  # noqa: DTZ001
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("by", "folders"),
    [
        ("none", {"": [0, 1, 2, 3, 4]}),
        ("day", {"day=1970-01-02/": [0, 3], "day=1969-12-31/": [1], f"day={_NULL}/": [2, 4]}),
        (
            "hour",
            {
                "day=1970-01-02/hour=00/": [0],
                "day=1969-12-31/hour=23/": [1],
                f"day={_NULL}/hour={_NULL}/": [2, 4],
                "day=1970-01-02/hour=05/": [3],
            },
        ),
    ],
)
def test_records_go_where_their_time_says(
    by: str, folders: dict[str, list[int]], tmp_path: Path
) -> None:
    writer = _writer(tmp_path, partition_by=by)
    writer.add(_rows(_DAY, -2, -1, _DAY + 5 * _HOUR))
    writer.add(_rows(-1, first_offset=4))
    found = {}
    for file in writer.finish():
        offsets = pq.read_table(tmp_path / file.staged).column("offset").to_pylist()
        folder, name = (
            file.name.removeprefix("final/").rsplit("/", 1)[-2:]
            if by != "none"
            else (
                "",
                file.name.removeprefix("final/"),
            )
        )
        assert name == f"00003-{offsets[0]:020d}-{offsets[-1]:020d}.parquet"
        assert (file.records, file.size) == (
            len(offsets),
            (tmp_path / file.staged).stat().st_size,
        )
        found[f"{folder}/" if folder else ""] = offsets
    assert found == folders


def test_row_groups_and_files_are_of_bounded_size(tmp_path: Path) -> None:
    writer = _writer(tmp_path, row_bytes=10_000, file_bytes=50_000, compression="none")
    for number in range(40):
        writer.add(_rows(0, first_offset=number, value=bytes([number]) * 5_000))
        assert writer._waiting_bytes <= 10_000
    written = writer.finish()
    assert [file.records for file in written] == [10, 10, 10, 10]
    groups = [pq.ParquetFile(tmp_path / file.staged).metadata.num_row_groups for file in written]
    assert all(count >= 3 for count in groups)
    assert [(file.first_offset, file.last_offset) for file in written] == [
        (0, 9),
        (10, 19),
        (20, 29),
        (30, 39),
    ]


def test_not_more_than_a_few_files_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "OPEN_FILES", 3)
    writer = _writer(tmp_path, partition_by="day")
    for number in range(20):
        writer.add(_rows(number % 5 * _DAY, first_offset=number))
        assert len(writer._open) <= 3
    written = writer.finish()
    assert sum(file.records for file in written) == 20
    assert len({file.name for file in written}) == len(written)


def test_a_file_that_was_changed_behind_our_back_is_noticed(tmp_path: Path) -> None:
    destination = FolderDestination(tmp_path)
    writer = _writer(tmp_path)
    writer.add(_rows(0))
    moves = [file.move for file in writer.finish()]
    destination.publish(moves, "_staging", "final")
    destination.publish(moves, "_staging", "final")
    (tmp_path / moves[0].final).write_bytes(b"")
    with pytest.raises(
        DestinationError, match="another program is writing or deleting files there"
    ):
        destination.publish(moves, "_staging", "final")


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_is_no_folder_to_export_to(below: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    with pytest.raises(DestinationError, match="is not a folder, or one of its parents is a file"):
        FolderDestination(path / below).check()
    assert path.read_bytes() == b"kept"


@pytest.mark.slow
def test_a_lock_outlives_a_beat_that_failed(moto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A brief failure of the bucket does not cost the lock, because other exports see the next heartbeat."""
    monkeypatch.setattr(BucketDestination, "beat_seconds", 0.1)
    monkeypatch.setattr(
        "lacuna.pipeline.export.bucket._PATIENCE_BEATS", 50
    )  # however slow a beat is
    bucket, query = moto.split("?")
    url = f"{bucket}/failing-beat?{query}"
    holder = BucketDestination(url)
    show, has_failed = holder._show, threading.Event()

    def fail_once(name: str, text: str) -> None:
        if not text.endswith(" 0") and not has_failed.is_set():
            has_failed.set()
            raise DestinationError("the bucket is away for a moment")
        show(name, text)

    monkeypatch.setattr(holder, "_show", fail_once)
    with holder.lock("lock"):
        assert has_failed.wait(60)
        with (
            pytest.raises(ExportRunningError, match="is already running"),
            BucketDestination(url).lock("lock"),
        ):
            pytest.fail("it was taken from the living")


def test_who_asks_for_the_files_of_all_runs_meets_the_end_of_one(tmp_path: Path) -> None:
    """Files of a run disappear when it is committed, possibly after a reader has listed and before it reads them."""

    class Ending(FolderDestination):
        def names(self, prefix: str) -> list[str]:
            found = super().names(prefix)
            log.prune()
            return found

    log = RunLog(FolderDestination(tmp_path), "t")
    begun = RunRecord(
        cluster_id="c", topic="t", topic_id="", partition_by="none", columns={},
        sequence=1, kind="begun", run=1, token="", positions={},
    )  # fmt: skip
    prepared = replace(begun, sequence=2, kind="prepared")
    for record in (begun, prepared, prepared.committed()):
        log.append(record)
    assert [each.sequence for each in RunLog(Ending(tmp_path), "t").committed()] == [3]
    assert len(FolderDestination(tmp_path).names("_lacuna")) == 1


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/prefix?sse=AES256&region=r", "sse"),
        ("s3://bucket/prefix?sse=aws:kms&encryption_keys=/keys", "encryption_keys and sse"),
        ("file:///folder?encryption_keys=/keys", "encryption_keys"),
    ],
)
def test_exported_files_are_not_encrypted_here(url: str, options: str) -> None:
    with pytest.raises(DestinationError, match=f"does not encrypt them: omit {options}"):
        open_destination(url)


def _log(partition: int, extents: int, *, size: int = 100, start: int = 0) -> PartitionLog:
    """Return extents of ten offsets each."""
    table = ExtentTable()
    for number in range(extents):
        base = number * 10
        table.append_row((1, number, 0, size, base, base + 10, 0, 0, 0, 0, 0))
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


def _ends(logs: list[PartitionLog]) -> dict[int, int]:
    return {log.partition: log.last_stable_offset for log in logs}


def test_large_partitions_are_split_and_small_ones_share_a_task() -> None:
    logs = [_log(0, 1), _log(1, 7), _log(2, 1), _log(3, 0)]
    ranges = plan_ranges(logs, {}, _ends(logs), allow_loss=False)
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
    tasks = plan_tasks(logs, plan_ranges(logs, {}, _ends(logs), allow_loss=False), 300)
    assert [len(task.slices[0].pieces) for task in tasks] == [1, 1]


def test_ranges_begin_where_the_last_run_ended() -> None:
    logs = [_log(0, 3), _log(1, 2, start=5), _log(2, 1)]
    assert plan_ranges(logs, {0: 30, 1: 7}, _ends(logs), allow_loss=False) == {
        0: (30, 30),
        1: (7, 20),
        2: (0, 10),  # a partition that is new
    }
    with pytest.raises(DataLossError, match=r"partitions 1 \(2 to 4\)"):
        plan_ranges(logs, {0: 30, 1: 2}, _ends(logs), allow_loss=False)
    assert plan_ranges(logs, {0: 30, 1: 2}, _ends(logs), allow_loss=True)[1] == (5, 20)
    assert plan_ranges(logs, {}, _ends(logs), allow_loss=False)[1] == (5, 20)
    cut = plan_ranges(logs, {0: 10, 1: 15}, {0: 20, 1: 10}, allow_loss=False)
    assert cut == {0: (10, 20), 1: (15, 15), 2: (0, 0)}, "it has passed this cut, or is not in it"


def test_columns_that_changed() -> None:
    assert changed_columns({"a": "int64", "b": "string"}, {"b": "string", "c": "bool"}) == ""
    assert changed_columns({"a": "int64"}, {"a": "string"}) == "a was int64 and would be string"
    assert (
        changed_columns({"a": "binary"}, {"a.b": "int64"}) == "a was binary and would have fields"
    )
    assert changed_columns({"a.b": "int64"}, {"a": "binary"}) == "a had fields and would be binary"
    assert changed_columns({"a.b": "int64"}, {"a.b": "int64", "a.c": "bool"}) == ""


def test_sorted_rows_are_in_small_row_groups(tmp_path: Path) -> None:
    settings = FileSettings(staged="s", final="f", sort_by=("key", "offset"))
    writer = FileWriter(open_destination(str(tmp_path)), settings, 0)
    numbers = [(7 * number) % 80 for number in range(80)]
    for first in (0, 40):
        offsets = list(range(first, first + 40))
        keys = [b"%02d" % numbers[offset] for offset in offsets]
        writer.add(pa.RecordBatch.from_pydict({"offset": offsets, "key": keys}))
    (file,) = writer.finish()
    assert (file.first_offset, file.last_offset) == (0, 79)
    found = pq.ParquetFile(tmp_path / file.staged)
    assert found.num_row_groups == 8
    assert found.read().column("key").to_pylist() == sorted(b"%02d" % each for each in numbers)


def test_columns_without_an_order_are_not_sorted_by() -> None:
    with pytest.raises(DestinationError, match="there is no column 'customer'"):
        Layout(sort_by=("key", "customer")).check_sorting()
    with pytest.raises(DestinationError, match="sorted by the column 'headers'"):
        Layout(sort_by=("headers",)).check_sorting()
    Layout(sort_by=("timestamp", "key")).check_sorting()
