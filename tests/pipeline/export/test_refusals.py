"""Tests that an impossible export prints one line that says what to do, and leaves nothing visible."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest

from lacuna.cli.app import app
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import UnpinReads
from lacuna.pipeline.errors import (
    DamagedDataError,
    DataLossError,
    DestinationError,
    PipelineError,
    StaleMetadataError,
)
from lacuna.pipeline.export.job import Export
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.running import export_topics
from lacuna.pipeline.holding import ReadHold, hold_lost
from lacuna.pipeline.spark_errors import job_errors
from lacuna.pipeline.stores import shared_store
from tests.pipeline.conftest import delete_records, delete_topic, pins_of
from tests.pipeline.export.conftest import Lake

_SOME = [(True, [(b"a", b"1")] * 3)]


def _lacuna(*arguments: str) -> int:
    return int(app(list(arguments), prog_name="lacuna", standalone_mode=False) or 0)


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_s6_a_topic_that_was_made_again(kind: str, lake: Lake) -> None:
    name = lake.written(_SOME)
    lake.export(name, format=kind)
    delete_topic(lake.cluster, name)
    lake.cluster.create_topic(name)
    lake.write(name, _SOME)
    with pytest.raises(DestinationError, match=f"{name} has been deleted and recreated"):
        lake.export(name, format=kind)


def test_retention_has_overtaken_the_export(lake: Lake, place: Any) -> None:
    name = lake.written(_SOME)
    lake.export(name, to=place.url)
    lake.write(name, _SOME * 2)
    delete_records(lake.cluster, name, 5)
    with pytest.raises(DataLossError, match=r"partitions 0 \(3 to 4\); continue .* --allow-loss"):
        lake.export(name, to=place.url)
    assert len(place.rows(name)) == 3
    report = lake.export(name, to=place.url, allow_loss=True)
    assert report.offsets == {0: (5, 9)}
    assert [row[1] for row in place.rows(name)] == [0, 1, 2, 5, 6, 7, 8]


@pytest.mark.slow
def test_another_partitioning_or_place(lake: Lake, tmp_path: Path, moto: str) -> None:
    name = lake.written(_SOME)
    lake.export(name)
    with pytest.raises(DestinationError, match="is partitioned by none: continue with"):
        lake.export(name, layout=Layout(partition_by="day"))
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(
        DestinationError,
        match="file is not a folder, or one of its parents is a file: choose another",
    ):
        lake.export(name, to=str(file))
    with pytest.raises(DestinationError, match="is not a destination: specify a folder"):
        lake.export(name, to="ftp://host/path")
    nowhere = re.sub("s3://[^/?]+", "s3://no-such-bucket", moto)
    with pytest.raises(
        Exception,
        match=r"'no-such-bucket'.* does not exist: create it, or specify a different bucket$",
    ):
        lake.export(name, to=nowhere)


def test_a_damaged_object_in_the_middle_of_a_job(lake: Lake, place: Any) -> None:
    """One message names the object and its offsets. Output of other tasks stays invisible until a run removes it."""
    name = lake.topic(2)
    lake.write(name, _SOME)
    lake.write(name, [(True, [(b"k", b"damage " + name.encode())])], partition=1)
    store = shared_store(lake.cluster.store_url)
    key, data = next(
        (found.key, data)
        for found in store.list()
        if b"damage " + name.encode() in (data := bytes(store.get_all(found.key)))
    )
    store.delete([key])
    store.put(key, [data.replace(b"damage ", b"damagee")])
    with pytest.raises(DamagedDataError, match=f"object '{key}' is damaged"), job_errors():
        lake.export(name, to=place.url, task_bytes=1)
    assert place.rows(name) == []
    store.delete([key])
    store.put(key, [data])
    assert lake.export(name, to=place.url).records == 4
    assert place.names("_staging") == []


MISTAKES = [
    ((), "the export has no destination: specify a folder"),
    (
        ("--to", "x", "--format", "orc"),
        "--format 'orc' is not known: choose one of parquet, iceberg",
    ),
    (("--to", "x", "--on-error", "skip"), "--on-error 'skip' is not known"),
    (("--to", "x", "--partition-by", "week"), "choose one of none, day, hour"),
    (
        ("--to", "x", "--partition-by", "bucket(4, key)"),
        "column transforms require --format iceberg",
    ),
    (("--to", "x", "--format", "iceberg", "--partition-by", "bucket(key)"), "'bucket(16, key)"),
    (("--to", "x", "--flatten"), "--flatten needs a schema"),
    (("--to", "x", "--value-message", "M"), "add --value-schema"),
    (("--to", "x", "--value-schema", "none.json"), "none.json cannot be read"),
    (("--to", "x", "--catalog-uri", "http://h"), "apply only to Iceberg"),
    (("--to", "s3://b", "--format", "iceberg"), "specify one with --catalog-uri"),
    (("--to", "x", "--format", "iceberg", "--catalog", "x"), "use --catalog NAME=VALUE"),
    (("--to", "x", "--watch", "soon"), "--watch"),
    (("--to", "x", "--maintain"), "apply only to Iceberg"),
    (("--to", "x", "--expire-snapshots", "7d"), "apply only to Iceberg"),
    (
        ("--to", "x", "--registry", "http://h", "--confluent-prefix", "--flatten"),
        "--confluent-prefix needs a schema",
    ),
    (("--to", "x", "--value-subject", "s"), "needs a registry: add --registry URL"),
    (("--to", "x", "--registry", "localhost:8081"), "specify http://HOST:PORT"),
    (("--to", "x", "--registry", "http://h", "--registry-login", "me"), "use file:PATH"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_options_that_do_not_fit(arguments: tuple[str, ...], message: str, lake: Lake) -> None:
    from lacuna.cli.errors import MENDABLE

    with pytest.raises(MENDABLE, match=re.escape(message)):
        _lacuna("export", lake.topic(), "--data", str(lake.cluster.data), *arguments)


def test_a_topic_that_is_not_there_is_told_before_spark_starts(lake: Lake) -> None:
    with pytest.raises(PipelineError, match="there is no topic 'nothing'"):
        _lacuna("export", "nothing", "--data", str(lake.cluster.data), "--to", "x")


def shown_by(printed: str) -> tuple[list[str], list[str]]:
    """Return the rows and sentences that the command prints for scripts to read."""
    lines = printed.splitlines()
    return (
        [line for line in lines if not line.startswith("#")],
        [line for line in lines if line.startswith("#")],
    )


@pytest.mark.slow
def test_the_command(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [lake.topic(), lake.topic()]
    for name in names:
        lake.write(name, _SOME)
    arguments = ["export", *names, "--data", str(lake.cluster.data), "--to", str(tmp_path)]
    _lacuna(*arguments, "--json")
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["topic"] for report in reports] == names
    assert reports[0]["offsets"] == {"0": {"from": 0, "to": 3}}
    assert reports[0]["records"] == 3
    lake.write(names[1], _SOME)
    _lacuna(*arguments)
    moved, (nothing, some, cut) = shown_by(capsys.readouterr().out)
    assert moved == ["topic\tpartition\tfrom\tto", f"{names[1]}\t0\t3\t6"]
    assert nothing == f"# {names[0]}: nothing new for {tmp_path}"
    assert some.startswith(f"# {names[1]}: 3 records in 1 file, ")
    assert cut.startswith("# 2 topics, cut at ")


@pytest.mark.parametrize(
    ("option", "expected"), [(["--watch", "10m"], [600, 600, 600]), (["--follow"], [8, 0, 8])]
)
def test_watching_goes_on_from_run_to_run(
    option: list[str],
    expected: list[float],
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = lake.topic()
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        lake.write(name, _SOME)

    monkeypatch.setattr("lacuna.cli.export.sleep", pause)
    # Runs of 12 s, of 40 s and of 12 s again.
    times = iter([0.0, 12.0, 30.0, 70.0, 70.0, 82.0])
    monkeypatch.setattr("lacuna.cli.export.monotonic", lambda: next(times))
    arguments = ["export", name, "--data", str(lake.cluster.data), "--to", str(tmp_path), "--json"]
    with pytest.raises(PipelineError, match="stopped"):
        _lacuna(*arguments, *option)
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["records"] for report in reports] == [0, 3, 3]
    assert pauses == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [
        ControlPlaneUnavailable("nobody is there"),
        PipelineError("the bucket cannot be read"),
        TopicFailure(topic="orders", error=hold_lost(ReadHold.held)),
    ],
    ids=["away", "no bucket", "for long"],
)
def test_watching_outlives_what_fails_a_run(
    failure: Exception | TopicFailure,
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report covers what was exported before the outage, and the run after the next pause continues from there."""
    names = [lake.topic(), lake.topic()]
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        for name in names:
            lake.write(name, _SOME)

    def export_then_fail(*arguments: Any) -> Iterator[TopicReport | TopicFailure]:
        for report in export_topics(*arguments):
            yield report
            if len(pauses) == 1:
                if isinstance(failure, TopicFailure):
                    yield failure
                    return
                raise failure

    monkeypatch.setattr("lacuna.cli.export.sleep", pause)
    monkeypatch.setattr("lacuna.pipeline.export.running.export_topics", export_then_fail)
    with pytest.raises(PipelineError, match="stopped"):
        _lacuna(
            "export",
            *names,
            "--data",
            str(lake.cluster.data),
            "--to",
            str(tmp_path),
            "--watch",
            "1m",
        )
    shown = capsys.readouterr()
    moved, sentences = shown_by(shown.out)
    assert len([each for each in sentences if "cut at" not in each]) == 5
    assert moved[1:] == [
        "topic\tpartition\tfrom\tto",
        f"{names[0]}\t0\t0\t3",
        "topic\tpartition\tfrom\tto",
        f"{names[0]}\t0\t3\t6",
        f"{names[1]}\t0\t3\t6",
    ]
    error = failure.error if isinstance(failure, TopicFailure) else failure
    assert str(error) in shown.err.replace("\n", " ")


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_objects_that_went_with_the_hold_are_no_loss(
    kind: str, is_held: bool, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that are missing after a job was disconnected for long are left to the next run."""
    name = lake.written(_SOME)
    pins = pins_of(lake.cluster)
    before = set(pins)

    def collected(*_: Any) -> None:
        if not is_held:
            for pin_id in set(pins) - before:
                unpinned = Command(unpin_reads=UnpinReads(pin_id=pin_id))
                lake.cluster.run(lake.cluster.embedded.control.call(unpinned))
        raise DataLossError("an object is gone")

    with monkeypatch.context() as patched:
        patched.setattr(Export, "run", collected)
        expected = DataLossError if is_held else StaleMetadataError
        with pytest.raises(expected, match="is gone" if is_held else "has lost its pin"):
            lake.export(name, format=kind)
    assert lake.export(name, format=kind).records == 3


@pytest.mark.slow
def test_topics_by_pattern_and_a_schema_for_each(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names override patterns, which override the settings for all topics."""
    names = ["chosen.plain", "chosen.bills", "chosen.bills.old", "chosen-by-name"]
    for name in names:
        lake.cluster.create_topic(name)
        lake.write(name, [(True, [(b"k", b'{"id": 1, "due": 2}')])])
    for name, properties in (("bills", ("id", "due")), ("old", ("id",)), ("other", ("due",))):
        fields = {each: {"type": "integer"} for each in properties}
        document = {"type": "object", "properties": fields}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    arguments = ["export", "chosen.*", "chosen-by-name", "chosen.plain", "--json", "--no-spark"]
    arguments += ["--data", str(lake.cluster.data), "--to", str(tmp_path / "lake")]
    arguments += ["--value-schema", f"chosen.bills*={tmp_path}/bills.json"]
    arguments += ["--value-schema", f"chosen.bills.old={tmp_path}/old.json"]
    arguments += ["--value-schema", f"{tmp_path}/other.json"]
    assert _lacuna(*arguments) == 0
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["topic"] for each in reports] == [*sorted(names[:3]), "chosen-by-name"]

    def values(topic: str) -> Any:
        table = pads.dataset(tmp_path / "lake" / f"topic={topic}").to_table(columns=["value"])
        return table.to_pylist()[0]["value"]

    assert [values(name) for name in names] == [
        {"due": 2},
        {"id": 1, "due": 2},
        {"id": 1},
        {"due": 2},
    ]
    with pytest.raises(PipelineError, match=r"no topic matches none-\*"):
        _lacuna("export", "none-*", *arguments[1:])


@pytest.mark.slow
def test_the_table_of_a_topic_with_dots(lake: Lake, tmp_path: Path) -> None:
    """The recipe in docs/export.md finds it, and two topics never share a table by accident."""
    from pyiceberg.catalog import load_catalog

    for name in ("shop.bills", "shop-bills"):
        lake.cluster.create_topic(name)
        lake.write(name, _SOME)
    settings = {"format": "iceberg", "namespace": "raw"}
    assert lake.export("shop.bills", **settings).target == "raw.shop_bills"
    catalog = load_catalog("lacuna", uri=f"sqlite:///{tmp_path}/catalog.db")
    assert catalog.load_table("raw.shop_bills").scan().to_arrow().num_rows == 3
    with pytest.raises(
        DestinationError, match=r"contains the topic shop\.bills: .* --table shop-bills="
    ):
        lake.export("shop-bills", **settings, tables={"shop-bills": "shop_bills"})
    other = lake.export("shop-bills", **settings, tables={"shop-bills": "bills"})
    assert other.target == "raw.bills"
    with pytest.raises(PipelineError, match="with no dot in the name"):
        lake.export("shop-bills", **settings, tables={"shop-bills": "a.b"})
