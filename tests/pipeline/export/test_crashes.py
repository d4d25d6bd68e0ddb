"""Tests SIGKILL at every stage: readers see none or all of the run, and the next run repairs it."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from lacuna.pipeline.errors import DestinationError, ExportRunningError
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.job import Export
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.runs import RunLog, committed_files
from tests.pipeline.export.conftest import MIXED, Lake


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
    stage: str, is_recovered: bool, lake: Lake, place: Any
) -> None:
    name = lake.topic(2)
    by = Layout(partition_by="day")
    lake.write(name, MIXED)
    first = lake.export(name, to=place.url, layout=by)
    before = place.rows(name)
    assert first.records == 31
    assert before == lake.consume(name, 2)
    lake.write(name, MIXED)
    lake.write(name, MIXED, partition=1)
    whole = lake.consume(name, 2)
    lake.kill(stage, name, place.url)
    assert place.rows(name) == (whole if stage == "committed" else before)
    again = lake.export(name, to=place.url, layout=by)
    assert again.recovered == is_recovered
    assert place.rows(name) == whole
    assert place.names("_staging") == []
    assert lake.export(name, to=place.url, layout=by).run is None


@pytest.mark.parametrize("stage", ["prepared", "publishing", "committed"])
@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_a_killed_export_to_a_bucket(stage: str, lake: Lake, place: Any) -> None:
    """S3 has no rename, so during publication a listing shows some files before the log lists any."""
    name = lake.topic(2)
    lake.write(name, MIXED)
    lake.write(name, MIXED, partition=1)
    whole = lake.consume(name, 2)
    lake.kill(stage, name, place.url)
    assert committed_files(place.url, name) == []
    assert len(place.rows(name)) == {"prepared": 0, "publishing": 30, "committed": 62}[stage]
    lake.export(name, to=place.url, layout=Layout(partition_by="day"))
    assert place.rows(name) == whole
    # what was prepared is published as it is, in more tasks than a run that is planned anew has
    assert len(committed_files(place.url, name)) == (2 if stage == "prepared" else 4)
    assert place.names("_staging") == []


def test_of_two_exports_one_is_refused(lake: Lake, place: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "lacuna.pipeline.export.bucket._PATIENCE_BEATS", 600
    )  # however slow a beat is
    name = lake.written()
    destination = open_destination(place.url)
    lock = destination.lock(f"_lacuna/topic={name}/lock")
    with lock, pytest.raises(ExportRunningError, match=r"another export .* is already running"):
        lake.export(name, to=place.url)
    assert place.rows(name) == []
    assert lake.export(name, to=place.url).records == 31


def test_who_lost_the_lock_publishes_nothing(lake: Lake, place: Any, monkeypatch: Any) -> None:
    """A paused export to a bucket may resume after its successor has started."""
    name = lake.written()
    run = Export.run

    def overtaken(self: Export, settings: Any, tasks: Any) -> Any:
        results = run(self, settings, tasks)
        monkeypatch.setattr(Export, "run", run)
        with monkeypatch.context() as patch:
            patch.setattr(type(open_destination(place.url)), "lock", lambda *_: nullcontext())
            assert lake.export(name, to=place.url).records == 31
        return results

    monkeypatch.setattr(Export, "run", overtaken)
    with pytest.raises(ExportRunningError, match="nothing from this run was published"):
        lake.export(name, to=place.url)
    assert len(place.rows(name)) == 31
    assert len(committed_files(place.url, name)) == 1
    assert place.names("_staging") == []


def test_what_was_prepared_is_published_whatever_the_next_export_asks_for(
    lake: Lake, tmp_path: Path
) -> None:
    name = lake.written()
    lake.kill("before-publishing", name)
    with pytest.raises(DestinationError, match="is partitioned by day"):
        lake.export(name, layout=Layout(partition_by="hour"))
    assert len(committed_files(str(tmp_path), name)) == 2
    assert lake.export(name, layout=Layout(partition_by="day")).run is None


def test_what_no_export_wrote_is_refused(lake: Lake, tmp_path: Path) -> None:
    name = lake.written()
    log = tmp_path / "_lacuna" / f"topic={name}" / "log"
    log.mkdir(parents=True)
    (log / "000000000001.json").write_text("{}")
    with pytest.raises(DestinationError, match=r"000000000001\.json is not an export record"):
        lake.export(name)


def test_files_without_a_record_are_refused(lake: Lake, tmp_path: Path) -> None:
    """The new run 1 would be mistaken for the existing one."""
    name = lake.written()
    lake.export(name)
    rmtree(tmp_path / "_lacuna")
    with pytest.raises(DestinationError, match="but no record of their export in _lacuna"):
        lake.export(name)


def test_the_log_keeps_a_record_of_each_run(lake: Lake, place: Any) -> None:
    """A run is rejected if it reuses a number that has become free."""
    name = lake.topic()
    log = RunLog(open_destination(place.url), name)
    for count in (1, 2, 3):
        lake.write(name, MIXED[:1])
        lake.export(name, to=place.url)
        assert [record.run for record in log.committed()] == list(range(1, count + 1))
        assert len(place.names(f"_lacuna/topic={name}/log")) == count
    last = log.last()
    assert last is not None
    with pytest.raises(ExportRunningError, match="nothing from this run was published"):
        log.append(replace(last, sequence=last.sequence - 1, kind="prepared"))
