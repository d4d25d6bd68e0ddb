"""Tests Iceberg tables, which store data and offsets in one snapshot.

The tests import pyiceberg where they use it. Otherwise every worker would import it, which takes as long as the other
tests.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from lacuna.pipeline.errors import DestinationError, ExportRunningError, PipelineError
from lacuna.pipeline.export.job import Export
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.typed.registry import Registry
from lacuna.pipeline.export.typed.schema import TypedSchema
from tests.pipeline.export.conftest import MIXED, Lake, catalog_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

_DAYS = {"format": "iceberg", "layout": Layout(partition_by="day")}


def _rows(table: Table) -> list[Any]:
    return sorted(
        (row["partition"], row["offset"], row["key"], row["value"])
        for row in table.scan().to_arrow().to_pylist()
    )


def _expected(rows: list[Any]) -> list[Any]:
    return [(row[0], row[1], row[3], row[4]) for row in rows]


def test_three_runs_are_three_snapshots(lake: Lake, export_on_spark: Any) -> None:
    from lacuna.pipeline.export import tables

    name = lake.topic(2)
    for count in (1, 2, 3):
        lake.write(name, MIXED)
        lake.write(name, MIXED[2:], partition=1)
        report = export_on_spark(name, **_DAYS)
        table = lake.table(name)
        assert report.records == 32
        assert report.target == f"lacuna.{name}"
        assert len(table.snapshots()) == count
        assert _rows(table) == _expected(lake.consume(name, 2))
        assert tables.offsets_of(table) == {0: 41 * count, 1: count}
    assert [field.name for field in table.spec().fields] == ["timestamp_day"]
    assert export_on_spark(name, **_DAYS).run is None
    assert len(lake.table(name).snapshots()) == 3


def test_a_topic_without_records_is_exported_and_goes_on(lake: Lake) -> None:
    """A run without files creates a snapshot with no files to list."""
    from lacuna.pipeline.export import tables

    name = lake.written(MIXED[1:2])
    assert lake.export(name, **_DAYS).records == 0
    table = lake.table(name)
    assert table.properties["write.metadata.delete-after-commit.enabled"] == "true"
    assert tables.offsets_of(table) == {0: 10}
    assert tables.files_of(table, "that of a run that died") == set()
    lake.write(name, MIXED)
    assert lake.export(name, **_DAYS).records == 31
    assert _rows(lake.table(name)) == _expected(lake.consume(name))


@pytest.mark.parametrize("stage", ["snapshot", "committed"])
def test_a_killed_export_to_a_table(stage: str, lake: Lake) -> None:
    """The kill comes after the files are written, either before or after the snapshot."""
    name = lake.written()
    lake.export(name, **_DAYS)
    before = _rows(lake.table(name))
    lake.write(name, MIXED)
    whole = _expected(lake.consume(name))
    lake.kill(stage, name, kind="iceberg")
    assert _rows(lake.table(name)) == (whole if stage == "committed" else before)
    again = lake.export(name, **_DAYS)
    assert (again.run is None) == (stage == "committed")
    lake.write(name, MIXED)
    lake.export(name, **_DAYS)
    table = lake.table(name)
    assert _rows(table) == _expected(lake.consume(name))
    known = set(table.inspect.data_files().column("file_path").to_pylist())
    assert _files(lake, name) == known


def test_a_commit_of_others_in_between_is_no_conflict_an_export_is(lake: Lake) -> None:
    from lacuna.pipeline.export import tables

    name = lake.written()
    lake.export(name, **_DAYS)
    lake.write(name, MIXED)
    append = tables._append

    def after_another(offsets: dict[str, str]) -> Any:
        def appending(table: Table, *rest: Any) -> None:
            tables._append = append
            with lake.table(name).transaction() as other:
                other.add_files([], snapshot_properties=offsets)
            append(table, *rest)

        return appending

    try:
        tables._append = after_another({})
        lake.export(name, **_DAYS)
        assert _rows(lake.table(name)) == _expected(lake.consume(name))
        lake.write(name, MIXED)
        tables._append = after_another({tables.OFFSETS: json.dumps({"0": 100})})
        with pytest.raises(ExportRunningError, match="another export wrote to the table"):
            lake.export(name, **_DAYS)
    finally:
        tables._append = append
    assert len(_rows(lake.table(name))) == 62


def test_a_column_that_is_new_is_added(lake: Lake) -> None:
    def typed(**properties: Any) -> dict[str, Any]:
        return {"format": "iceberg", "layout": _typed("none", **properties)}

    name = lake.written([(True, [(None, b'{"a": 1}')])])
    lake.export(name, **typed(a="integer"))
    lake.write(name, [(True, [(None, b'{"a": 2, "b": "x"}')])])
    lake.export(name, **typed(a="integer", b="string"))
    found = lake.table(name).scan().to_arrow()
    assert sorted(found.column("value").to_pylist(), key=str) == [
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
    ]
    lake.write(name, [(True, [(None, b'{"a": "y"}')])])
    with pytest.raises(
        DestinationError, match=r"has different columns: .* value\.a: long -> string"
    ):
        lake.export(name, **typed(a="string"))
    assert lake.table(name).scan().to_arrow().num_rows == 2


def _typed(by: str, *, is_flat: bool = False, **properties: str) -> Layout:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    schema = json.dumps({"type": "object", "properties": kinds}).encode()
    return Layout(value=TypedSchema("json", schema), partition_by=by, is_flat=is_flat)


@pytest.mark.parametrize("wrong", [
    pytest.param(_typed("day", a="integer", c="string"), id="type"),
    pytest.param(_typed("none", is_flat=True, a="string"), id="flat"),
    pytest.param(Layout(partition_by="hour"), id="none"),
])  # fmt: skip
def test_a_first_run_that_failed_binds_nobody(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, wrong: Layout
) -> None:
    """The empty table that it left adopts the columns and partitions of the run that succeeds, and keeps them."""
    name = lake.written([(True, [(b"k", b'{"a": "x", "b": 1}')])])
    settings = {"format": "iceberg"}
    with monkeypatch.context() as patched:
        patched.setattr(Export, "run", _failing)
        with pytest.raises(ValueError, match="of no use"):
            lake.export(name, layout=wrong, **settings)
    mended = _typed("hour", a="string", b="integer")
    assert lake.export(name, layout=mended, **settings).records == 1
    table = lake.table(name)
    assert table.scan().to_arrow().column("value").to_pylist() == [{"a": "x", "b": 1}]
    assert {field.name for field in table.schema().fields} == set(mended.schema().names)
    assert [field.name for field in table.spec().fields] == ["timestamp_hour"]
    lake.write(name, [(True, [(b"k", b'{"a": "y", "b": 2}')])])
    with pytest.raises(DestinationError, match="is partitioned by hour"):
        lake.export(name, layout=_typed("day", a="string", b="integer"), **settings)
    with pytest.raises(DestinationError, match="has different columns"):
        lake.export(name, layout=_typed("hour", a="integer"), **settings)
    assert lake.export(name, layout=mended, **settings).records == 1


def _failing(*_: Any) -> None:
    raise ValueError("of no use")


@pytest.mark.parametrize("is_done", [True, False])
def test_what_the_catalog_did_not_say_is_looked_at_in_the_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """This includes the last attempt. Only a definite failure is reported as "nothing added"."""
    from pyiceberg.exceptions import CommitStateUnknownException

    from lacuna.pipeline.export import tables

    name = lake.written()
    append = tables._append
    tried: list[int] = []

    def unanswered(*arguments: Any) -> None:
        tried.append(1)
        if is_done and len(tried) == tables.ATTEMPTS:
            append(*arguments)
        raise CommitStateUnknownException("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(tables, "_append", unanswered)
        if is_done:
            assert lake.export(name, **_DAYS).records == 31
        else:
            with pytest.raises(DestinationError, match="because the catalog did not answer"):
                lake.export(name, **_DAYS)
    assert len(tried) == tables.ATTEMPTS
    lake.export(name, **_DAYS)
    assert len(_rows(lake.table(name))) == 31


def test_hours_are_partitions(lake: Lake) -> None:
    name = lake.topic(retention_ms="-1")
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})
    for hour in (0, 1, 2, 1, -1):
        producer.produce(name, b"%d" % hour, timestamp=1_700_000_000_000 + hour * 3_600_000)
        assert producer.flush(60) == 0
    lake.export(name, format="iceberg", layout=Layout(partition_by="hour"))
    table = lake.table(name)
    partitions = table.inspect.partitions().to_pylist()
    assert sorted(row["record_count"] for row in partitions) == [1, 1, 1, 2]
    found = table.scan(row_filter="timestamp < '2023-11-14T22:00:00+00:00'").to_arrow()
    assert found.column("value").to_pylist() == [b"-1"]


def test_a_rollback_of_the_table_rolls_the_export_back(lake: Lake) -> None:
    name = lake.topic()
    for _ in range(2):
        lake.write(name, MIXED)
        lake.export(name, **_DAYS)
    table = lake.table(name)
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert len(_rows(lake.table(name))) == 31
    assert lake.export(name, **_DAYS).offsets == {0: (41, 82)}
    assert _rows(lake.table(name)) == _expected(lake.consume(name))


def test_offsets_outlive_their_snapshot(lake: Lake) -> None:
    """Other tools may compact a table and expire earlier snapshots."""
    name = lake.written()
    lake.export(name, **_DAYS)
    table = lake.table(name)
    ours = table.snapshots()[0].snapshot_id
    table.add_files([])
    table.maintenance.expire_snapshots().by_id(ours).commit()
    lake.write(name, MIXED)
    assert lake.export(name, **_DAYS).offsets == {0: (41, 82)}
    assert _rows(lake.table(name)) == _expected(lake.consume(name))


def test_transforms_of_columns_partition_a_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file contains the rows of one partition, so a reader looking for a key opens only its bucket's files."""
    from pyiceberg.expressions import EqualTo

    from lacuna.pipeline.export import maintaining

    monkeypatch.setattr(maintaining, "LEAST_FILES", 2)
    name = lake.topic()
    # Parquet has no statistics of the last one.
    keys = [*(b"%d" % number for number in range(40)), bytes(5_000)]
    layout = Layout(partition_by="bucket(4, key), truncate(1, value), month(timestamp)")
    to: dict[str, Any] = {"format": "iceberg", "layout": layout}
    for _ in range(2):
        lake.write(name, [(True, [(key, key) for key in keys]), (True, [(None, b"none")])])
        lake.export(name, **to)
    table = lake.table(name)
    fields = [field.name for field in table.spec().fields]
    assert fields == ["key_bucket", "value_truncate", "timestamp_month"]
    assert _rows(table) == _expected(lake.consume(name))
    merged = maintaining.merge_small_files(table, 1 << 27, "zstd")
    assert merged > 8
    table = lake.table(name)
    assert _rows(table) == _expected(lake.consume(name))
    found = table.scan(row_filter=EqualTo("key", b"7"))  # type: ignore[call-arg, arg-type]
    assert len(list(found.plan_files())) == 1
    assert found.to_arrow().column("value").to_pylist() == [b"7", b"7"]
    buckets = {each.file.partition[0] for each in table.scan().plan_files()}
    assert buckets == {None, 0, 1, 2, 3}
    with pytest.raises(PipelineError, match="there is no column 'region'"):
        lake.export(name, **{**to, "layout": Layout(partition_by="identity(region)")})
    with pytest.raises(PipelineError, match="which hour does not support"):
        lake.export(name, **{**to, "layout": Layout(partition_by="hour(key)")})
    with pytest.raises(DestinationError, match="is partitioned by bucket"):
        lake.export(name, **{**to, "layout": Layout(partition_by="day")})


def _files(lake: Lake, topic: str) -> set[str]:
    there = (lake.folder / "lacuna" / topic).rglob("*.parquet")
    return {f"file://{path}" for path in there}


def _known(table: Table) -> set[str]:
    """Return the data files that any snapshot of a table contains."""
    return set(table.inspect.all_data_files().column("file_path").to_pylist())


def test_small_files_are_merged_and_the_old_ones_deleted(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lacuna.pipeline.export import maintaining, tables

    monkeypatch.setattr(maintaining, "LEAST_FILES", 3)
    name = lake.topic()
    settings: dict[str, Any] = {**_DAYS, "merges": True}
    for number in range(1, 6):
        lake.write(name, MIXED[2:])
        if number == 3:
            (*_, last) = lake.table(name).snapshots()
            folder = f"data/merged/{last.snapshot_id}-dead"
            orphan = tmp_path / "lacuna" / name / folder / "00000.parquet"
            orphan.parent.mkdir(parents=True)
            orphan.write_bytes(b"the merge died")
        lake.export(name, **settings)
    table = lake.table(name)
    assert _rows(table) == _expected(lake.consume(name))
    assert tables.offsets_of(table) == {0: 5}
    # Three files became one, and that one another with two more.
    assert table.inspect.data_files().num_rows == 1
    assert len(table.snapshots()) == 7
    assert not orphan.exists()
    assert _known(table) == _files(lake, name)
    lake.write(name, MIXED[2:])
    lake.export(name, **settings, expire_ms=0)
    table = lake.table(name)
    assert len(table.snapshots()) == 1
    assert _rows(table) == _expected(lake.consume(name))
    assert _known(table) == _files(lake, name)
    assert len(_known(table)) == 2
    current = table.current_snapshot()
    assert current is not None
    late = tmp_path / "lacuna" / name / f"data/merged/{current.snapshot_id}-x/00000.parquet"
    late.parent.mkdir(parents=True)
    late.write_bytes(b"the commit may be on its way")
    assert lake.export(name, **settings, expire_ms=0).run is None  # the offsets are still known
    assert late.exists()
    lake.write(name, MIXED[2:])
    lake.export(name, **settings)
    assert not late.exists()


def test_a_merge_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds if a partition has many files, or files lack the column to sort by."""
    from lacuna.pipeline.export import maintaining

    catalog = catalog_of(tmp_path)
    catalog.create_namespace("lacuna")
    rows = pa.table({"offset": pa.array([1, 2], pa.int64()), "value": [b"b", b"a"]})
    table = catalog.create_table("lacuna.many", rows.schema)
    for _ in range(20):
        table.append(rows)
    size = next(iter(table.scan().plan_files())).file.file_size_in_bytes
    merge = maintaining.merge_small_files
    monkeypatch.setattr(maintaining, "_MOST_BYTES", 9 * size)
    assert merge(table, 3 * size, "zstd", ("customer", "value")) == 9
    monkeypatch.setattr(maintaining, "_MOST_BYTES", 1 << 30)
    monkeypatch.setattr(maintaining, "_MOST_FILES", 8)
    assert merge(table, 1 << 27, "zstd", ("customer", "value")) == 8
    assert table.scan().to_arrow().num_rows == 40
    monkeypatch.setattr(maintaining, "_EXPIRED_SHARE", 1 / 2)
    times = [each.timestamp_ms for each in table.snapshots()]
    assert len(times) == 22
    for age_of, left in ((9, 22), (15, 7)):
        expire_ms = table.metadata.last_updated_ms - times[age_of]
        maintaining.expire_snapshots(table, expire_ms, frozenset())
        table = catalog.load_table("lacuna.many")
        assert len(table.snapshots()) == left
    assert table.scan().to_arrow().num_rows == 40


@pytest.mark.slow
def test_a_merge_keeps_what_others_did(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that others deleted stay deleted, and another writer's earlier commit prevents the merge."""
    from pyiceberg.table import Transaction

    from lacuna.pipeline.export import maintaining

    name = lake.topic()
    for _ in range(8):
        lake.write(name, MIXED[2:])
        lake.export(name, **_DAYS)
    lake.table(name).delete("offset = 2")
    before = _rows(lake.table(name))
    assert len(before) == 7
    table, first = lake.table(name), lake.table(name)
    commit = Transaction.commit_transaction

    def after_another(transaction: Transaction) -> Table:
        Transaction.commit_transaction = commit  # type: ignore[method-assign]
        first.delete("offset = 4")
        return commit(transaction)

    try:
        Transaction.commit_transaction = after_another  # type: ignore[method-assign, assignment]
        monkeypatch.setattr(maintaining, "LEAST_FILES", 7)
        assert maintaining.merge_small_files(table, 1 << 27, "zstd") == 0
    finally:
        Transaction.commit_transaction = commit  # type: ignore[method-assign]
    assert _rows(lake.table(name)) == [row for row in before if row[1] != 4]
    table = lake.table(name)
    monkeypatch.setattr(maintaining, "LEAST_FILES", 6)
    assert maintaining.merge_small_files(table, 1 << 27, "zstd") == 6
    assert _rows(lake.table(name)) == [row for row in before if row[1] != 4]


def test_tables_that_are_not_this_topics(lake: Lake) -> None:
    name = lake.written()
    catalog = lake.catalog()
    catalog.create_namespace("lacuna")
    catalog.create_table(("lacuna", name), pa.schema([pa.field("a", pa.int64())]))
    with pytest.raises(DestinationError, match="was not created by an export"):
        lake.export(name, **_DAYS)
    lake.export(name, namespace="other", **_DAYS)
    with pytest.raises(DestinationError, match="is partitioned by day: continue with"):
        lake.export(name, namespace="other", format="iceberg")
    layout = _typed("day", a="integer")
    with pytest.raises(DestinationError, match="has different columns"):
        lake.export(name, namespace="other", format="iceberg", layout=layout)


def test_a_table_in_a_bucket(lake: Lake, moto: str, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    from lacuna.pipeline.export import tables

    name = lake.topic()
    bucket, query = moto.split("?")
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db"}
    for _ in range(2):
        lake.write(name, MIXED)
        lake.export(name, to=f"{bucket}/tables?{query}", catalog=catalog, **_DAYS)
    properties = tables.catalog_properties(f"{bucket}/tables?{query}", catalog)
    table = load_catalog("lacuna", **properties).load_table(("lacuna", name))
    assert table.location() == f"{bucket}/tables/lacuna/{name}"
    assert _rows(table) == _expected(lake.consume(name))


def _keyed(table: Table) -> dict[bytes, bytes]:
    """Return the rows of a table by key. pyiceberg, Polars and DuckDB must all read the same ones."""
    import duckdb
    import polars

    rows = table.scan().to_arrow()
    pairs = rows.select(["key", "value"]).to_pylist()
    found = {pair["key"]: pair["value"] for pair in pairs}
    assert len(found) == len(pairs), "each key has one row"
    lazy = polars.scan_iceberg(table, reader_override="native").select("key", "value")
    assert dict(lazy.collect().rows()) == found
    relation = duckdb.sql("SELECT key, value FROM rows")
    assert relation is not None
    assert dict(relation.fetchall()) == found
    return found


def test_a_table_by_key_has_the_newest_row_of_each(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tombstones delete rows. A run that dies after writing its deletes leaves no trace."""
    from lacuna.pipeline.export import upserts

    monkeypatch.setattr(upserts, "_KEY_ROWS", 7)  # so that a run and a file are compared in parts
    monkeypatch.setattr(upserts, "_MOST_MANIFESTS", 2)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    name, rng, expected = lake.topic(2), random.Random(34), dict[bytes, bytes]()
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})
    to: dict[str, Any] = {"format": "iceberg", "upserts": True}
    for run in range(9):
        for number in range(40):
            key = b"%d" % rng.randrange(25)
            value = None if rng.random() < 0.3 else b"%d of %d" % (number, run)
            producer.produce(name, value, key, partition=int(key) % 2)
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        assert producer.flush(60) == 0
        if run == 5:
            with monkeypatch.context() as patch:
                patch.setattr("lacuna.pipeline.export.tables.upsert", _failing)
                with pytest.raises(DestinationError, match="of no use"):
                    lake.export(name, **to)
        lake.export(
            name, **to, task_bytes=1, merges=run % 3 == 2, expire_ms=0 if run == 8 else None
        )
        assert _keyed(lake.table(name)) == expected
    table = lake.table(name)
    known = set(upserts.Deletes.of(table).paths())
    assert len(known) <= table.inspect.data_files().num_rows, "at most one for each data file"
    for snapshot in table.snapshots():
        files = table.inspect.files(snapshot.snapshot_id).column("file_path").to_pylist()
        known.update(files)
    there = {f"file://{path}" for path in tmp_path.rglob("data/**/*.parquet")}
    assert {path for path in there if "lacuna_cuts" not in path} == known
    assert not list(tmp_path.rglob("_tombstones/**/*.parquet"))


def test_a_run_by_key_that_dies_after_its_snapshot_keeps_its_deletes(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has only a tombstone, and its first attempt was rejected. The next run deletes files that no snapshot uses."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.manifest import ManifestContent

    from lacuna.pipeline.export import iceberg, tables
    from lacuna.pipeline.export.upserts import upsert

    name = lake.topic()
    to: dict[str, Any] = {"format": "iceberg", "upserts": True}
    producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})

    def produce(*pairs: tuple[bytes, bytes | None]) -> None:
        for key, value in pairs:
            producer.produce(name, value, key)
        assert producer.flush(60) == 0

    produce((b"a", b"1"), (b"b", b"2"))
    lake.export(name, **to)
    produce((b"a", None))

    def rejected(*_: object) -> None:
        patch.setattr(tables, "upsert", upsert)
        raise CommitFailedException("another was faster")

    with monkeypatch.context() as patch:
        patch.setattr(tables, "upsert", rejected)
        patch.setattr(iceberg.IcebergRun, "finish", _failing)
        with pytest.raises(ValueError, match="of no use"):
            lake.export(name, **to)
    assert list(tmp_path.rglob("_tombstones/**/*.parquet"))
    produce((b"c", b"3"))
    lake.export(name, **to)
    table = lake.table(name)
    found = table.scan().to_arrow().select(["key", "value"]).to_pylist()
    assert {row["key"]: row["value"] for row in found} == {b"b": b"2", b"c": b"3"}
    before, after = (
        [m.manifest_path for m in each.manifests(table.io) if m.content == ManifestContent.DELETES]
        for each in table.snapshots()[-2:]
    )
    assert len(before) == 1
    assert after == before, "the manifest of deletes is not written again"
    assert _files(lake, name) == set(table.inspect.all_files().column("file_path").to_pylist())


def test_only_tables_with_simple_keys_are_exported_by_key(lake: Lake) -> None:
    with pytest.raises(PipelineError, match="add --format iceberg"):
        lake.export("any", upserts=True)
    single, several = (
        _typed("none", a="integer").value,
        _typed("none", a="integer", b="string").value,
    )
    assert single is not None
    assert several is not None
    registered = replace(several, registry=Registry("http://localhost"))
    for layout, remedy in (
        (Layout(key=single), "add --flatten"),
        (Layout(key=several, is_flat=True), "leave out the key's schema"),
        (Layout(key=registered), "export without --registry"),
    ):
        with pytest.raises(DestinationError, match=remedy):
            lake.export("any", format="iceberg", upserts=True, layout=layout)


def test_the_column_of_the_key_of_a_table_by_key_stays(lake: Lake) -> None:
    name = lake.topic()
    to: dict[str, Any] = {"format": "iceberg"}
    key = _typed("none", a="integer").value
    lake.write(name, [(True, [(b'{"a": 1}', b"1")])])
    lake.export(name, **to, upserts=True)
    with pytest.raises(DestinationError, match="'key', but the key would be in the column 'key_a'"):
        lake.export(name, **to, upserts=True, layout=Layout(key=key, is_flat=True))
    with pytest.raises(DestinationError, match="a row for each key: add --upsert"):
        lake.export(name, **to)
    lake.export(name, **to, namespace="other")
    with pytest.raises(DestinationError, match="a row for each record: leave out --upsert"):
        lake.export(name, **to, namespace="other", upserts=True)
