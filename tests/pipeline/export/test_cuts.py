"""Tests that exports of several topics split no transaction: all end at one cut, and readers find complete cuts."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lacuna.base.errors import UserError
from lacuna.cli.app import app
from lacuna.pipeline.export.cuts import CompleteCut, CutLog
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.runs import RunLog
from lacuna.testing import Cluster
from tests.pipeline.conftest import at_work, transactional
from tests.pipeline.export.conftest import Lake, Place, catalog_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import DataScan

    from tests.pipeline.export.rest_catalog import RestCatalogServer


class Transfers:
    """Two topics, a producer that moves amounts between them, and one that blocks the second topic."""

    def __init__(self, lake: Lake) -> None:
        self.topics = (lake.topic(), lake.topic())
        self.settings: dict[str, Any] = {"format": "iceberg"}
        self._lake = lake
        self._by = transactional(lake.cluster, f"by-{self.topics[0]}")
        self._holder = transactional(lake.cluster, f"holds-{self.topics[0]}")

    def export(self, **settings: Any) -> list[Any]:
        return self._lake.export_all(self.topics, **{**self.settings, **settings})

    def cut(self, **settings: Any) -> Any:
        """Export, and return the cut."""
        return _cut_of(self.export(**settings))

    def states(self) -> list[list[list[int]]]:
        """Return the amounts in the tables at each complete cut, oldest first."""
        return list(_states(self._lake.catalog(), self.topics))

    def move(self, amount: int, key: bytes | None = None) -> None:
        self._by.begin_transaction()
        for topic, sign in zip(self.topics, (-1, 1), strict=True):
            self._by.produce(topic, json.dumps(sign * amount), key, partition=0)
        self._by.commit_transaction(60)

    def hold(self) -> None:
        """Open a transaction in the second topic only."""
        self._holder.begin_transaction()
        self._holder.produce(self.topics[1], b"0", partition=0)
        assert self._holder.flush(60) == 0

    def release(self) -> None:
        self._holder.commit_transaction(60)


@pytest.fixture
def transfers(lake: Lake) -> Transfers:
    return Transfers(lake)


def _amounts(values: Sequence[bytes]) -> list[int]:
    return sorted(int(value) for value in values)


def _scans(catalog: Catalog, topics: Sequence[str]) -> Iterator[list[DataScan]]:
    """Yield scans of the tables at each complete cut, oldest first."""
    cuts = catalog.load_table("lacuna.lacuna_cuts").scan().to_arrow().sort_by("at").to_pylist()
    for cut in dict.fromkeys(row["cut"] for row in cuts):
        snapshots = {row["table_name"]: row["snapshot_id"] for row in cuts if row["cut"] == cut}
        assert all(row["tables"] == len(topics) for row in cuts if row["cut"] == cut)
        tables = {topic: catalog.load_table(("lacuna", topic)) for topic in topics}
        yield [
            table.scan(snapshot_id=snapshots[topic], selected_fields=("value",))
            for topic, table in tables.items()
        ]


def _states(catalog: Catalog, topics: Sequence[str]) -> Iterator[list[list[int]]]:
    """Yield the amounts in the tables at each complete cut, oldest first, as a reader finds them."""
    for scans in _scans(catalog, topics):
        yield [_amounts(each.to_arrow().column("value").to_pylist()) for each in scans]


def _cut_of(outcomes: Sequence[Any]) -> Any:
    assert all(isinstance(each, TopicReport) for each in outcomes), outcomes
    assert len({each.cut for each in outcomes}) == 1
    return outcomes[0].cut


@pytest.mark.slow
def test_s3_tables_of_a_run_have_whole_transactions(transfers: Transfers, lake: Lake) -> None:
    transfers.move(5)
    assert transfers.cut().holders == ()
    transfers.hold()
    transfers.move(10)
    cut = transfers.cut()
    assert cut.is_complete
    (holder,) = cut.holders
    assert (holder.transactional_id, holder.partitions) == (f"holds-{transfers.topics[0]}", 2)
    catalog = lake.catalog()
    assert transfers.states() == [[[-5], [5]]], "there is nothing new to note"
    transfers.release()
    last = transfers.cut()
    states = transfers.states()
    assert states == [[[-5], [5]], [[-10, -5], [0, 5, 10]]]
    for name in transfers.topics:
        snapshot = catalog.load_table(("lacuna", name)).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        found = snapshot.summary
        assert (found["lacuna.cut"], found["lacuna.cut.topics"]) == (last.id, "2")
        assert found["lacuna.cut.at-ms"] == str(last.at_ms)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_runs_of_files_have_whole_transactions(transfers: Transfers, place: Place) -> None:
    transfers.move(5)
    transfers.export(format="parquet", to=place.url)
    transfers.hold()
    transfers.move(10)
    transfers.export(format="parquet", to=place.url)
    transfers.release()
    transfers.export(format="parquet", to=place.url)
    first, last = CutLog(open_destination(place.url)).complete()
    assert first.states == dict.fromkeys(transfers.topics, 1)
    assert last.states == dict.fromkeys(transfers.topics, 2)
    rows = [_amounts([row[4] for row in place.rows(name)]) for name in transfers.topics]
    assert rows == [[-10, -5], [0, 5, 10]]


@pytest.mark.slow
def test_a_cut_that_a_topic_has_not_reached_is_not_noted(transfers: Transfers, lake: Lake) -> None:
    """One topic was exported further on its own, or fails. Readers keep using the previous cut."""
    transfers.move(5)
    transfers.export()
    transfers.hold()
    transfers.move(10)
    assert lake.export(transfers.topics[0], **transfers.settings).records == 1
    assert not transfers.cut().is_complete
    assert transfers.states() == [[[-5], [5]]]
    transfers.release()
    *_, missing = lake.export_all([*transfers.topics, "missing"], **transfers.settings)
    assert "there is no topic 'missing'" in str(missing.error)
    assert len(transfers.states()) == 1
    assert transfers.cut().is_complete
    assert transfers.states()[1:] == [[[-10, -5], [0, 5, 10]]]


@pytest.mark.slow
def test_the_table_of_cuts_keeps_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lacuna.pipeline.export import together
    from lacuna.pipeline.export.job import ExportSettings

    monkeypatch.setattr(together, "_MOST_FILES", 3)
    monkeypatch.setattr(together, "MOST_CUTS", 5)
    cuts = together.CutsTable.of(ExportSettings(to=str(tmp_path), format="iceberg"))
    catalog_of(tmp_path).create_namespace("lacuna")
    assert cuts.complete() == []
    for number in range(9):
        states = {"a": number, "b": number // 2}
        for _ in range(2):  # the second time after a lost answer, say
            cuts.note(CompleteCut(id=f"cut {number}", at_ms=1_000 * number, states=states))
    found = cuts.complete()
    assert found[-1] == CompleteCut(id="cut 8", at_ms=8_000, states={"a": 8, "b": 4})
    assert [each.id for each in found] == [f"cut {number}" for number in range(9)][-len(found) :]
    assert 5 <= len(found) < 5 + 3
    assert together.CutsTable.with_newest(cuts.settings)[1] == {"a": 8, "b": 4}
    snapshot = catalog_of(tmp_path).load_table("lacuna.lacuna_cuts").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert int(snapshot.summary["total-data-files"] or 0) <= 3


@pytest.mark.parametrize("kind", ["parquet", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_the_status_names_what_to_read(
    kind: str, lake: Lake, transfers: Transfers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("--to", str(tmp_path), "--format", kind)
    with pytest.raises(UserError, match="specify the topics to export"):
        _lacuna("export", *place)
    _lacuna("export", "--status", *place)
    assert "no cut is complete" in capsys.readouterr().out
    data = ("--data", str(lake.cluster.data))
    transfers.move(5)
    _lacuna("export", *transfers.topics, *place, *data)
    assert "2 topics, cut at" in capsys.readouterr().out
    transfers.hold()
    transfers.move(10)
    _lacuna("export", *transfers.topics, *place, *data)
    found = capsys.readouterr().out
    assert (
        "no transaction is split; 2 partitions end before the open transaction of holds-" in found
    )
    transfers.release()
    _lacuna("export", *transfers.topics, *place, *data, "--json")
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert reports[0]["cut"]["complete"]
    assert reports[0]["cut"]["held_by"] == []
    assert {each["cut"]["id"] for each in reports} == {reports[0]["cut"]["id"]}
    _lacuna("export", "--status", *place)
    heading, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert heading[2:] == ["topic" if kind == "parquet" else "table", "read", "still there"]
    newest = [[each["topic"], str(each["run"]), "yes"] for each in reports]
    assert [row[2:] for row in rows[:2]] == sorted(newest)
    assert len(rows) == 4


def _lacuna(*arguments: str) -> None:
    app(list(arguments), prog_name="lacuna", standalone_mode=False)


@pytest.fixture
def rest(lake: Lake, transfers: Transfers) -> Iterator[RestCatalogServer]:
    """A REST catalog to which `transfers` exports."""
    from tests.pipeline.export.rest_catalog import RestCatalogServer  # pyiceberg

    server = RestCatalogServer(lake.catalog())
    transfers.settings["catalog"] = {"uri": server.uri}
    yield server
    server.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "together"),
    [
        (["lost", "409"], True),
        (["404"], False),
        ([], True),
        (["503", "409", "502", "lost"], True),
        (["501"], False),
    ],
    ids=str,
)
def test_a_rest_catalog_shows_all_tables_in_one_step(
    faults: list[str], together: bool, rest: RestCatalogServer, transfers: Transfers
) -> None:
    transfers.move(5)
    transfers.export()
    transfers.move(10)
    rest.commits.clear()
    rest.faults = list(faults)
    assert transfers.cut().is_complete
    names = set(transfers.topics)
    tables = [names] if together else [{name} for name in transfers.topics]
    assert rest.commits == [*tables, {"lacuna_cuts"}], "each commit was done once"
    states = transfers.states()
    assert states == [[[-5], [5]], [[-10, -5], [5, 10]]]
    for name in names:
        assert len(rest.catalog.load_table(("lacuna", name)).snapshots()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("is_joint", [True, False])
def test_tables_by_key_are_shown_together(
    is_joint: bool, rest: RestCatalogServer, transfers: Transfers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a joint commit, the rows to delete are found before the first table is committed."""
    from lacuna.pipeline.export import tables, upserts

    steps: list[str] = []

    def noted(where: Any, name: str) -> None:
        function = getattr(where, name)

        def noting(*arguments: Any) -> Any:
            steps.append(name)
            return function(*arguments)

        monkeypatch.setattr(where, name, noting)

    noted(upserts.Upserts, "_find")
    noted(tables, "_append")
    if not is_joint:
        rest.endpoints.pop()
    for amount in (5, 10):
        transfers.move(amount, b"account")
        assert transfers.cut(upserts=True).is_complete
    assert rest.commits.count(set(transfers.topics)) == (2 if is_joint else 0)
    if not is_joint:
        assert steps == ["_find", "_find", "_append", "_append"] * 2
    assert transfers.states() == [[[-5], [5]], [[-10], [10]]]


@pytest.mark.slow
def test_what_one_table_lacks_costs_this_table_only(
    rest: RestCatalogServer, transfers: Transfers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lacuna.pipeline.export import together

    first = transfers.topics[0]
    transfers.move(5)
    rest.faults = ["403"]
    refused = transfers.export()
    assert ["the catalog returned 403" in str(each.error) for each in refused] == [True, True]
    commit_all = together.commit_all

    def without_file(changes: Any) -> Any:
        (path,) = changes[first].paths
        Path(path.removeprefix("file://")).unlink()
        return commit_all(changes)

    def without_table(changes: Any) -> Any:
        rest.catalog.drop_table(("lacuna", first))
        return commit_all(changes)

    for fault, reason in ((without_file, first), (without_table, "was dropped during the run")):
        monkeypatch.setattr(together, "commit_all", fault)
        transfers.move(5)
        failed, exported = transfers.export()
        assert isinstance(failed, TopicFailure)
        assert reason in str(failed.error)
        assert isinstance(exported, TopicReport)
        assert exported.records > 0


@pytest.mark.slow
def test_a_catalog_that_promises_no_joint_commit_is_not_asked_for_one(
    rest: RestCatalogServer, transfers: Transfers
) -> None:
    rest.endpoints.pop()
    rest.faults = ["500"]
    transfers.move(5)
    assert transfers.cut().is_complete
    assert rest.faults == ["500"]
    assert transfers.states() == [[[-5], [5]]]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["second-snapshot", "noting"])
def test_a_killed_export_of_several_tables(stage: str, transfers: Transfers, lake: Lake) -> None:
    """Readers of complete cuts see nothing of the run, and the next run exports each record once."""
    transfers.move(5)
    transfers.export()
    transfers.move(10)
    lake.kill(stage, ",".join(transfers.topics), kind="iceberg", by="none")
    assert transfers.states() == [[[-5], [5]]]
    transfers.move(20)
    assert transfers.cut().is_complete
    assert transfers.states()[1:] == [[[-20, -10, -5], [5, 10, 20]]]


@pytest.mark.slow
@pytest.mark.parametrize("is_joint", [True, False])
def test_a_zombie_export_adds_nothing(
    is_joint: bool,
    rest: RestCatalogServer,
    transfers: Transfers,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It resumes with its files after another export has taken over one of its topics."""
    from lacuna.pipeline.export import together
    from lacuna.pipeline.export.folder import FolderDestination

    if not is_joint:
        rest.endpoints.pop()
    transfers.move(5)
    transfers.export()
    transfers.move(10)
    commit_all = together.commit_all

    def overtaken(changes: Any) -> Any:
        monkeypatch.setattr(together, "commit_all", commit_all)
        with monkeypatch.context() as patch:
            patch.setattr(FolderDestination, "lock", lambda *_: nullcontext())
            lake.export(transfers.topics[1], **transfers.settings)
        return commit_all(changes)

    monkeypatch.setattr(together, "commit_all", overtaken)
    first, second = transfers.export()
    assert isinstance(first, TopicReport)
    assert "another export" in str(second.error)
    assert transfers.states() == [[[-5], [5]]]
    assert transfers.cut().is_complete
    assert transfers.states()[1:] == [[[-10, -5], [5, 10]]]


@pytest.mark.slow
def test_old_snapshots_are_deleted_but_not_those_of_the_newest_cut(
    transfers: Transfers, lake: Lake, tmp_path: Path
) -> None:
    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.together import CutsTable

    for amount in (1, 2, 3):
        transfers.move(amount)
        transfers.export()
    transfers.hold()
    transfers.move(4)
    first, second = transfers.topics
    lake.export(first, **transfers.settings)  # it passes the cut
    assert len(transfers.cut(expire_ms=0).holders) == 1
    assert [len(lake.table(name).snapshots()) for name in (first, second)] == [2, 1]
    settings = ExportSettings(to=str(tmp_path), format="iceberg")
    cut = CutsTable.of(settings).complete()[-1]
    for name, amounts in ((first, [-3, -2, -1]), (second, [1, 2, 3])):
        table = lake.table(name)
        rows = table.scan(snapshot_id=cut.states[name], selected_fields=("value",)).to_arrow()
        assert _amounts(rows.column("value").to_pylist()) == amounts
        used = {
            path
            for each in table.snapshots()
            for path in (each.manifest_list, *(m.manifest_path for m in each.manifests(table.io)))
        }
        there = (tmp_path / "lacuna" / name / "metadata").glob("*.avro")
        assert {f"file://{path}" for path in there} == used


class Load:
    """Eight producers move amounts between two topics with four partitions. They abort half of the transactions."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self.committed = 0

    def under_way(self) -> AbstractContextManager[None]:
        return at_work([partial(self._move, number) for number in range(8)])

    def _move(self, number: int, is_over: Event) -> None:
        chance = random.Random(number)
        producer = transactional(self._cluster, f"load-{self._topics[0]}-{number}")
        while not is_over.is_set():
            producer.begin_transaction()
            amount = chance.randint(1, 1_000)
            for topic, sign in zip(self._topics, (-1, 1), strict=True):
                partition = chance.randrange(4)
                producer.produce(topic, json.dumps(sign * amount), partition=partition)
            if chance.random() < 0.3:  # some are open for longer than others
                producer.flush(60)
                is_over.wait(chance.random() * 0.5)
            if chance.random() < 0.5:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                self.committed += 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["files", "SQL catalog", "REST catalog"])
def test_s3_sums_are_equal_at_every_cut_whatever_is_killed(
    kind: str, lake: Lake, tmp_path: Path, request: Any
) -> None:
    topics = [lake.topic(4), lake.topic(4)]
    to: dict[str, Any] = {}
    command = ["export", *topics, "--data", str(lake.cluster.data)]
    command += ["--to", str(tmp_path), "--watch", "1s"]
    if kind != "files":
        to["format"] = "iceberg"
        command += ["--format", "iceberg"]
    if kind == "REST catalog":
        to["catalog"] = {"uri": request.getfixturevalue("rest").uri}
        command += ["--catalog-uri", to["catalog"]["uri"]]
    load = Load(lake.cluster, topics)
    with load.under_way():
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *command], stdout=subprocess.DEVNULL
        )
        Event().wait(5)  # some runs; the kill comes at any moment of one
        process.kill()
        process.wait()
        lake.export_all(topics, **to)
    assert _cut_of(lake.export_all(topics, **to)).is_complete
    states = list(
        _file_states(str(tmp_path), topics) if kind == "files" else _states(lake.catalog(), topics)
    )
    assert states, "at least that of the last run"
    for taken, given in states:
        assert [-each for each in reversed(taken)] == given
    assert len(states[-1][0]) == load.committed
    spark = request.getfixturevalue("spark")
    paths = (
        _paths_of_runs(str(tmp_path), topics)
        if kind == "files"
        else _paths_of_snapshots(lake.catalog(), topics)
    )
    for (debits, credits_), (taken, given) in zip(paths, states, strict=True):
        names = debits + credits_
        rows = spark.read.parquet(*names).select("value").collect() if names else []
        assert _amounts([row.value for row in rows]) == taken + given, "Spark reads the same"


def _file_states(to: str, topics: Sequence[str]) -> Iterator[list[list[int]]]:
    """Yield the amounts in the files at each complete cut, oldest first, as a reader of runs finds them."""
    for files in _paths_of_runs(to, topics):
        tables = [[pq.read_table(name, columns=["value"]) for name in names] for names in files]
        yield [
            _amounts([value for each in found for value in each.column("value").to_pylist()])
            for found in tables
        ]


def _paths_of_runs(to: str, topics: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the files of each topic at each complete cut, oldest first."""
    place = open_destination(to)
    for cut in CutLog(place).complete():
        yield [
            [
                place.uri(file.name)
                for record in RunLog(place, topic).committed()
                if record.run <= cut.states[topic]
                for file in record.files
            ]
            for topic in topics
        ]


def _paths_of_snapshots(catalog: Catalog, topics: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the files of each table at each complete cut, oldest first."""
    for scans in _scans(catalog, topics):
        yield [[file.file.file_path for file in each.plan_files()] for each in scans]
