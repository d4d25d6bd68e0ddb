"""Tests SIGKILL at every stage: readers see none or all of the run, and the next run repairs it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lacuna.pipeline.errors import ExportRunningError
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.runs import committed_files
from lacuna.testing import Cluster
from tests.pipeline.conftest import transact

_MIXED = [(True, [(b"a", b"1")] * 30), (False, [(b"x", b"never")] * 10), (True, [(b"b", None)])]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BucketDestination, "beat_seconds", 0.1)


@pytest.mark.parametrize(
    ("stage", "is_recovered"),
    [
        ("prepared", False),
        ("before-publishing", True),
        ("publishing", True),
        ("committed", True),
    ],
)
@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_a_killed_export_to_a_folder(
    stage: str,
    is_recovered: bool,
    cluster: Cluster,
    topic: Any,
    export: Any,
    consume: Any,
    killed: Any,
    place: Any,
) -> None:
    name = topic(2)
    by = _layout("day")
    transact(cluster, name, _MIXED)
    first = export(name, to=place.url, layout=by)
    before = place.rows(name)
    assert first.records == 31
    assert before == consume(name, 2)
    transact(cluster, name, _MIXED)
    transact(cluster, name, _MIXED, partition=1)
    whole = consume(name, 2)
    killed(stage, name, place.url)
    assert place.rows(name) == (whole if stage == "committed" else before)
    again = export(name, to=place.url, layout=by)
    assert again.recovered == is_recovered
    assert place.rows(name) == whole
    assert place.names("_staging") == []
    assert export(name, to=place.url, layout=by).run is None


@pytest.mark.parametrize("stage", ["prepared", "publishing", "committed"])
@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_a_killed_export_to_a_bucket(
    stage: str, cluster: Cluster, topic: Any, export: Any, consume: Any, killed: Any, place: Any
) -> None:
    """S3 has no rename, so during publication a listing shows some files while the log has none."""
    name = topic(2)
    transact(cluster, name, _MIXED)
    transact(cluster, name, _MIXED, partition=1)
    whole = consume(name, 2)
    killed(stage, name, place.url)
    assert committed_files(place.url, name) == []
    assert len(place.rows(name)) == {"prepared": 0, "publishing": 30, "committed": 62}[stage]
    export(name, to=place.url, layout=_layout("day"))
    assert place.rows(name) == whole
    # what was prepared is published as it is, in more tasks than a run that is planned anew has
    assert len(committed_files(place.url, name)) == (2 if stage == "prepared" else 4)
    assert place.names("_staging") == []


def test_of_two_exports_one_is_refused(
    cluster: Cluster, topic: Any, export: Any, place: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        "lacuna.pipeline.export.bucket._PATIENCE_BEATS", 600
    )  # however slow a beat is
    name = topic()
    transact(cluster, name, _MIXED)
    destination = open_destination(place.url)
    lock = destination.lock(f"_lacuna/topic={name}/lock")
    with lock, pytest.raises(ExportRunningError, match=r"another export .* is already running"):
        export(name, to=place.url)
    assert place.rows(name) == []
    assert export(name, to=place.url).records == 31


def test_who_lost_the_lock_publishes_nothing(
    cluster: Cluster, topic: Any, export: Any, place: Any, monkeypatch: Any
) -> None:
    """A paused export to a bucket may resume after its successor has started."""
    from lacuna.pipeline.export.job import Export

    name = topic()
    transact(cluster, name, _MIXED)
    run = Export.run

    def overtaken(self: Export, settings: Any, tasks: Any) -> Any:
        results = run(self, settings, tasks)
        monkeypatch.setattr(Export, "run", run)
        with monkeypatch.context() as patch:
            patch.setattr(type(open_destination(place.url)), "lock", _no_lock)
            assert export(name, to=place.url).records == 31
        return results

    monkeypatch.setattr(Export, "run", overtaken)
    with pytest.raises(ExportRunningError, match="nothing of this run was published"):
        export(name, to=place.url)
    assert len(place.rows(name)) == 31
    assert len(committed_files(place.url, name)) == 1
    assert place.names("_staging") == []


def test_what_was_prepared_is_published_whatever_the_next_export_asks_for(
    cluster: Cluster, topic: Any, export: Any, consume: Any, killed: Any, tmp_path: Path
) -> None:
    from lacuna.pipeline.errors import DestinationError

    name = topic()
    transact(cluster, name, _MIXED)
    killed("before-publishing", name, str(tmp_path))
    with pytest.raises(DestinationError, match="is partitioned by day"):
        export(name, to=str(tmp_path), layout=_layout("hour"))
    assert len(committed_files(str(tmp_path), name)) == 2
    assert export(name, to=str(tmp_path), layout=_layout("day")).run is None


def test_what_no_export_wrote_is_refused(
    cluster: Cluster, topic: Any, export: Any, tmp_path: Path
) -> None:
    from lacuna.pipeline.errors import DestinationError

    name = topic()
    transact(cluster, name, _MIXED)
    log = tmp_path / "_lacuna" / f"topic={name}" / "log"
    log.mkdir(parents=True)
    (log / "000000000001.json").write_text("{}")
    with pytest.raises(DestinationError, match=r"000000000001\.json is not a record of an export"):
        export(name, to=str(tmp_path))


def test_files_without_a_record_are_refused(
    cluster: Cluster, topic: Any, export: Any, tmp_path: Path
) -> None:
    """The new run 1 would be mistaken for the existing one."""
    from shutil import rmtree

    from lacuna.pipeline.errors import DestinationError

    name = topic()
    transact(cluster, name, _MIXED)
    export(name, to=str(tmp_path))
    rmtree(tmp_path / "_lacuna")
    with pytest.raises(DestinationError, match="but no record of their export in _lacuna"):
        export(name, to=str(tmp_path))


def test_the_log_keeps_a_record_of_each_run(
    cluster: Cluster, topic: Any, export: Any, place: Any
) -> None:
    """A run that used a number which is free again is rejected."""
    from lacuna.pipeline.export.runs import RunLog

    name = topic()
    log = RunLog(open_destination(place.url), name)
    for count in (1, 2, 3):
        transact(cluster, name, _MIXED[:1])
        export(name, to=place.url)
        assert [record.run for record in log.committed()] == list(range(1, count + 1))
        assert len(place.names(f"_lacuna/topic={name}/log")) == count
    last = log.last()
    assert last is not None
    with pytest.raises(ExportRunningError, match="nothing of this run was published"):
        log.append(replace(last, sequence=last.sequence - 1, kind="prepared"))


def _layout(partition_by: str) -> Any:
    from lacuna.pipeline.export.layout import Layout

    return Layout(partition_by=partition_by)


def _no_lock(*_: object) -> Any:
    from contextlib import nullcontext

    return nullcontext()
