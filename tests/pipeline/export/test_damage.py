"""Tests unreadable records: other topics continue, and a report from `lacuna verify` allows skipping the records."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lacuna.cli.app import app
from lacuna.pipeline.audit import AuditOptions, audit
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.export.damage import ConfirmedDamage, Skipped
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.runs import RunLog
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.export.conftest import Lake

Damage = Callable[[Cluster, bytes], str]


def _object_with(cluster: Cluster, mark: bytes) -> tuple[str, bytes]:
    store = shared_store(cluster.store_url)
    return next(
        (found.key, data)
        for found in store.list()
        if mark in (data := bytes(store.get_all(found.key)))
    )


def _lose(cluster: Cluster, mark: bytes) -> str:
    """Delete the object that contains the mark. Return its key."""
    key, _ = _object_with(cluster, mark)
    shared_store(cluster.store_url).delete([key])
    return key


def _damage(cluster: Cluster, mark: bytes) -> str:
    """Change a byte of the mark. Return its object's key."""
    key, data = _object_with(cluster, mark)
    store = shared_store(cluster.store_url)
    store.delete([key])
    store.put(key, [data.replace(mark, mark[:-1] + b"?")])
    return key


def _confirmed(cluster: Cluster, path: Path) -> Path:
    """Write the report of an audit to a file. Return its path."""
    report = audit(find_cluster(data=str(cluster.data)), AuditOptions(), None)
    path.write_text(json.dumps(report.as_json()))
    return path


@pytest.fixture
def broken(lake: Lake) -> Callable[[Damage], tuple[str, str]]:
    """broken(damage) -> (topic, key): three transactions of two records. The second transaction is unreadable."""

    def make(damage: Damage) -> tuple[str, str]:
        name = lake.topic()
        for value in (b"before", b"in-the-middle-" + name.encode(), b"after"):
            lake.write(name, [(True, [(b"k", value)] * 2)])
        return name, damage(lake.cluster, b"in-the-middle-" + name.encode())

    return make


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder"], indirect=True)
@pytest.mark.parametrize(
    ("damage", "error", "kind"),
    [
        (_lose, DataLossError, "missing object"),
        (_damage, DamagedDataError, "damaged bytes"),
    ],
)
def test_what_verify_has_confirmed_is_left_out_and_recorded(
    damage: Damage,
    error: type[Exception],
    kind: str,
    lake: Lake,
    broken: Any,
    place: Any,
    tmp_path: Path,
) -> None:
    name, key = broken(damage)
    earlier = ConfirmedDamage(lake.cluster.embedded.control.cluster.cluster_id, {})
    for given, advice in ((None, "if it is lost for good, run"), (earlier, "does not list this")):
        with pytest.raises(error, match=rf"{key}.*{advice}.*lacuna verify.*--skip-damage"):
            lake.export(name, to=place.url, damage=given)
    confirmed = ConfirmedDamage.of_report(_confirmed(lake.cluster, tmp_path / "report.json"))
    report = lake.export(name, to=place.url, damage=confirmed)
    lost = Skipped(partition=0, first_offset=2, end_offset=4, key=key, kind=kind)
    assert report.skipped == (lost,)
    assert report.as_json()["skipped"] == [
        {"partition": 0, "from": 2, "to": 4, "object": key, "damage": kind}
    ]
    assert report.offsets == {0: (0, 6)}
    assert [row[4] for row in place.rows(name)] == [b"before"] * 2 + [b"after"] * 2
    recorded = RunLog(open_destination(place.url), name).last()
    assert recorded is not None
    assert recorded.skipped == (lost,)
    assert lake.export(name, to=place.url).run is None  # behind the damage, nothing more is asked


@pytest.mark.slow
def test_a_snapshot_of_a_table_records_it_too(lake: Lake, broken: Any, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    name, key = broken(_lose)
    confirmed = ConfirmedDamage.of_report(_confirmed(lake.cluster, tmp_path / "report.json"))
    report = lake.export(name, to=str(tmp_path / "lake"), format="iceberg", damage=confirmed)
    catalog = load_catalog("lacuna", uri=f"sqlite:///{tmp_path}/lake/catalog.db")
    snapshot = catalog.load_table(("lacuna", name)).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    recorded = snapshot.summary["lacuna.skipped"]
    assert recorded is not None
    assert json.loads(recorded) == [asdict(each) for each in report.skipped]
    assert [each.key for each in report.skipped] == [key]


@pytest.mark.slow
def test_other_topics_are_exported_and_watching_goes_on(
    lake: Lake,
    broken: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost, _ = broken(_lose)
    sound = lake.topic()
    lake.write(sound, [(True, [(b"k", b"v")] * 3)])
    arguments = [
        "export",
        lost,
        sound,
        "--data",
        str(lake.cluster.data),
        "--to",
        str(tmp_path / "lake"),
    ]
    arguments += ["--no-spark", "--json"]

    def run(*more: str) -> tuple[int, list[Any], str]:
        code = int(app([*arguments, *more], prog_name="lacuna", standalone_mode=False) or 0)
        shown = capsys.readouterr()
        return code, [json.loads(line) for line in shown.out.splitlines()], shown.err

    code, (failed, exported), told = run()
    assert code == 1
    assert failed["topic"] == lost
    assert "is gone" in failed["error"]
    assert exported["records"] == 3
    assert f"{lost} was not exported" in told.replace("\n", " ")

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        lake.write(sound, [(True, [(b"k", b"v")] * 4)])

    monkeypatch.setattr("lacuna.cli.export.sleep", pause)
    with pytest.raises(PipelineError, match="stopped"):
        run("--watch", "10m")
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each.get("records", "failed") for each in found] == ["failed", 0, "failed", 4]

    report = _confirmed(lake.cluster, tmp_path / "report.json")
    code, (mended, _), _ = run("--skip-damage", str(report))
    assert code == 0
    assert mended["records"] == 4


def test_reports_that_do_not_fit(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(PipelineError, match=r"report\.json cannot be read: No such file"):
        ConfirmedDamage.of_report(path)
    for text in ("{", "[]", '{"findings": []}'):
        path.write_text(text)
        with pytest.raises(PipelineError, match="is not a JSON report from `lacuna verify`"):
            ConfirmedDamage.of_report(path)
    path.write_text('{"cluster_id": "elsewhere", "findings": []}')
    with pytest.raises(PipelineError, match="report is about cluster elsewhere"):
        lake.export(lake.topic(), to=str(tmp_path), damage=ConfirmedDamage.of_report(path))


@pytest.mark.parametrize(
    ("hits", "is_confirmed"),
    [
        ([(0, 10)], True),
        ([(2, 4), (4, 8)], True),
        ([(4, 8), (2, 4)], True),
        ([(2, 4), (5, 8)], False),
        ([(3, 8)], False),
        ([(2, 7)], False),
        ([], False),
    ],
)
def test_all_offsets_must_be_confirmed(
    hits: list[tuple[int, int]], is_confirmed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    finding = {"key": "k", "is_note": False, "kind": "damaged bytes"}
    found = [
        {"topic": "t", "partition": 1, "first_offset": first, "end_offset": end}
        for first, end in hits
    ]
    path.write_text(json.dumps({"cluster_id": "c", "findings": [{**finding, "hits": found}]}))
    damage = ConfirmedDamage.of_report(path)
    assert damage.kind_of("k", "t", 1, 2, 8) == ("damaged bytes" if is_confirmed else None)
    for other in (("j", "t", 1), ("k", "u", 1), ("k", "t", 0)):
        assert damage.kind_of(*other, 2, 8) is None
