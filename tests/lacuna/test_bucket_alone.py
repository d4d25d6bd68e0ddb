"""`lacuna up --journal bucket`: a bucket is all the state there is, so a machine that is lost costs nothing."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.logstore.objects import open_conditional_store
from lacuna.testing import Cluster, ProcessCluster
from tests.clients.librd import COMMITTED, read

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


def stored(bootstrap: str) -> list[str]:
    got = read(bootstrap, "t", COMMITTED)
    assert got.errors == []
    return [value.decode() for _, value in got.records]


def test_a_machine_that_is_lost_costs_nothing(
    tmp_path: Path, bucket_url: str, clients: SimpleNamespace
) -> None:
    """Its folder is gone. A client that was in the middle of a transaction goes on with it."""
    with Cluster(tmp_path / "one", store=bucket_url, journal="bucket") as cluster:
        producer = clients.transactional(cluster.bootstrap, "t")
        for value, end in (
            ("committed", producer.commit_transaction),
            ("aborted", producer.abort_transaction),
        ):
            producer.begin_transaction()
            clients.send(producer, "t", [value])
            end(60)
        producer.begin_transaction()
        clients.send(producer, "t", ["begun"])
        cluster.kill()
        assert not [each for each in (tmp_path / "one").iterdir() if "journal" in each.name]
        shutil.rmtree(tmp_path / "one")
        cluster.data = tmp_path / "two"
        cluster.start()
        clients.send(producer, "t", ["ended"])
        producer.commit_transaction(60)
        assert stored(cluster.bootstrap) == ["committed", "begun", "ended"]


def test_a_leadership_that_was_lost_comes_back(
    tmp_path: Path, bucket_url: str, clients: SimpleNamespace
) -> None:
    """As after a pause of the machine: another one has led, and has ended."""

    async def lead_once() -> None:
        with closing(open_conditional_store(bucket_url)) as store:
            journal = BucketJournal(store, str)
            await journal.open(None)
            await journal.close()

    with Cluster(tmp_path / "data", store=bucket_url, journal="bucket") as cluster:
        producer = clients.plain(cluster.bootstrap)
        clients.send(producer, "t", ["before"])
        epoch = cluster.embedded.running.plane.epoch
        asyncio.run(lead_once())
        clients.send(producer, "t", ["after"])
        assert cluster.embedded.running.plane.epoch == epoch + 2
        assert stored(cluster.bootstrap) == ["before", "after"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers=2"]], ids=["one process", "workers"])
def test_up_is_killed_and_started_on_another_machine(
    tmp_path: Path,
    moto_endpoint: str,
    bucket_url: str,
    clients: SimpleNamespace,
    workers: list[str],
    lacuna: Command,
) -> None:
    bucket = bucket_url.removeprefix("s3://").partition("?")[0]
    options = ["--journal=bucket", f"--bucket={bucket}", f"--endpoint={moto_endpoint}", *workers]
    with ProcessCluster(tmp_path / "one", options) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["before"])
        assert f"records and journal in {bucket_url}" in up.output
        up.kill()
    shutil.rmtree(tmp_path / "one")
    with ProcessCluster(tmp_path / "two", options) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["after"])
        assert stored(up.bootstrap) == ["before", "after"]
        address = (up.data / "control.address").read_text()
        status = lacuna("controlplane", "status", "--control", address)
        assert status.rows[1] == ["epoch 2"]


def test_a_journal_in_the_bucket_needs_a_bucket(refused: Refusal) -> None:
    assert "name it with --bucket" in refused("up", "--journal=bucket")
