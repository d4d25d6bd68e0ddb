"""Tests `lacuna up` with a bucket. With `--journal bucket`, it holds all state, so a lost machine loses nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lacuna.base.addresses import parse_address
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.client.views import ClusterView
from lacuna.controlplane.journal.bucket import BucketJournal
from lacuna.controlplane.journal.journal import JournalError
from lacuna.logstore.objects import open_conditional_store
from lacuna.operating import embedded
from lacuna.operating.moto import CREDENTIALS
from lacuna.testing import Cluster
from tests.clients.librd import eventually
from tests.forked import ForkedCluster
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


@pytest.mark.slow
def test_a_machine_that_is_lost_costs_nothing(tmp_path: Path, bucket_url: str) -> None:
    """Its folder is gone. A client continues its open transaction."""
    with Cluster(tmp_path / "one", store=bucket_url, journal="bucket") as cluster:
        producer = clients.transactional(cluster.bootstrap, "t")
        clients.transact(producer, "t", ["committed"])
        clients.transact(producer, "t", ["aborted"], commits=False)
        producer.begin_transaction()
        clients.send(producer, "t", ["begun"])
        cluster.kill()
        assert not [each for each in (tmp_path / "one").iterdir() if "journal" in each.name]
        shutil.rmtree(tmp_path / "one")
        cluster.data = tmp_path / "two"
        cluster.start()
        clients.send(producer, "t", ["ended"])
        producer.commit_transaction(60)
        assert clients.stored(cluster.bootstrap) == ["committed", "begun", "ended"]


@pytest.mark.slow
def test_a_leadership_that_was_lost_comes_back(tmp_path: Path, bucket_url: str) -> None:
    """While the machine was paused, another process became the leader and ended."""

    async def lead_once() -> None:
        with closing(open_conditional_store(bucket_url)) as store:
            journal = BucketJournal(store, str)
            await journal.open(None)
            await journal.close()

    with Cluster(tmp_path / "data", store=bucket_url, journal="bucket") as cluster:
        producer = clients.plain(cluster.bootstrap)
        clients.send(producer, "t", ["before"])
        epoch = cluster.embedded.running.runtime.epoch
        asyncio.run(lead_once())
        clients.send(producer, "t", ["after"])
        assert cluster.embedded.running.runtime.epoch >= epoch + 2
        assert clients.stored(cluster.bootstrap) == ["before", "after"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "step"),
    [(ClusterView, "ready"), (embedded, "claim"), (embedded, "start_agent")],
    ids=["ready", "claim", "start_agent"],
)
def test_a_leadership_that_is_lost_during_the_start_comes_back(
    tmp_path: Path, bucket_url: str, monkeypatch: pytest.MonkeyPatch, place: object, step: str
) -> None:
    """On a busy machine, the first renewal may be late."""
    take, lost = getattr(place, step), [ControlPlaneUnavailable("another control plane leads")]

    async def taken(*arguments: Any, **more: Any) -> Any:
        if lost:
            raise lost.pop()
        return await take(*arguments, **more)

    monkeypatch.setattr(place, step, taken)
    with Cluster(tmp_path / "data", store=bucket_url, journal="bucket") as cluster:
        assert cluster.create_topic("t") == "t"
    assert not lost


async def led_by_another_up(bucket_url: str, until: threading.Event) -> None:
    """Lead the journal in the bucket as `lacuna up` on another machine would.

    Lead again if a renewal is so late that the cluster has taken over.
    """
    with closing(open_conditional_store(bucket_url)) as store:
        while not until.is_set():
            journal = BucketJournal(store, str, address="lacuna up on another, process 1")
            with suppress(JournalError):
                opened = await journal.open(None)
                while not until.is_set():
                    await journal.renewer(opened.fencing_token).renew()
                    await asyncio.sleep(0.2)
            await journal.close()


def is_listening(bootstrap: str) -> bool:
    try:
        socket.create_connection(parse_address(bootstrap), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_no_clients_are_kept_while_another_up_leads(tmp_path: Path, bucket_url: str) -> None:
    """Its agents cannot reach that process, so clients that remained here would make no progress."""
    ended = threading.Event()
    with Cluster(tmp_path, store=bucket_url, journal="bucket") as cluster:
        address = cluster.bootstrap
        producer = clients.plain(address)
        clients.send(producer, "t", ["before"])
        with ThreadPoolExecutor() as threads:
            leading = threads.submit(asyncio.run, led_by_another_up(bucket_url, ended))
            try:
                eventually(lambda: is_listening(address), False)
            finally:
                ended.set()
            leading.result(60)
        clients.send(producer, "t", ["after"])
        assert clients.stored(address) == ["before", "after"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers=2"]], ids=["one process", "workers"])
def test_up_is_killed_and_started_on_another_machine(
    tmp_path: Path, moto_endpoint: str, bucket_url: str, workers: list[str], lacuna: Command
) -> None:
    bucket = bucket_url.removeprefix("s3://").partition("?")[0]
    options = ["--journal=bucket", f"--bucket={bucket}", f"--endpoint={moto_endpoint}", *workers]
    with ForkedCluster(tmp_path / "one", options) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["before"])
        assert f"records and journal in {bucket_url}" in up.output
        up.kill()
    shutil.rmtree(tmp_path / "one")
    with ForkedCluster(tmp_path / "two", options) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["after"])
        assert clients.stored(up.bootstrap) == ["before", "after"]
        address = (up.data / "control.address").read_text()
        status = lacuna("controlplane", "status", "--control", address)
        assert status.rows[1] == ["epoch 2"]


@pytest.mark.slow
def test_up_keeps_records_at_the_url_of_a_store(
    tmp_path: Path, bucket_url: str, lacuna: Command
) -> None:
    """The journal remains in the data folder, through which jobs find both."""
    with ForkedCluster(tmp_path / "data", [f"--store={bucket_url}"]) as up:
        assert f"records in {bucket_url}, journal in {up.data}" in up.output
        clients.send(clients.plain(up.bootstrap), "t", ["before"])
        up.restart()
        assert clients.stored(up.bootstrap) == ["before"]
        assert not (up.data / "objects").exists()
        ran = lacuna("metadata", "publish", f"--data={up.data}", **CREDENTIALS)
        assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--journal=bucket"], "specify it with --bucket or --store"),
        (["--create-bucket"], "specify it with --bucket or --store"),
        (["--journal=bucket", "--store=file:///tmp"], "bucket: specify the bucket with --store s3://"),
        (["--store=s3://a", "--bucket=b", "--print-config"], "--bucket and --store both specify where"),
        (["--store=s3://a", "--endpoint=http://h"], "add ?endpoint=… to its URL"),
        (["--store=memory:"], "would lose the records on exit but keep the journal: use --moto"),
        (["--store=a"], "'a' is not the URL of an object store: use one of file:///FOLDER"),
        (["--moto", "--store=s3://a"], "omit --bucket, --endpoint and --store"),
    ],
)  # fmt: skip
def test_options_for_the_bucket_that_cannot_work(
    refused: Refusal, tmp_path: Path, options: list[str], message: str
) -> None:
    assert message in refused("up", f"--data={tmp_path}", *options)


@pytest.mark.slow
def test_of_two_ups_one_sleeps_and_wakes(
    tmp_path: Path, moto_endpoint: str, bucket_url: str
) -> None:
    """The clients of the earlier leader move to the other one automatically."""
    bucket = bucket_url.removeprefix("s3://").partition("?")[0]
    options = ["--journal=bucket", f"--bucket={bucket}", f"--endpoint={moto_endpoint}"]
    with ForkedCluster(tmp_path / "one", options) as first:
        os.kill(first.pid, signal.SIGSTOP)
        with ForkedCluster(tmp_path / "two", options) as second:
            os.kill(first.pid, signal.SIGCONT)
            both = f"{first.bootstrap},{second.bootstrap}"
            producer = clients.plain(both)
            clients.send(producer, "t", ["one"])
            eventually(lambda: "and will serve no clients until" in first.output, True)
            clients.send(producer, "t", ["two"])
            assert clients.stored(second.bootstrap) == ["one", "two"]
        clients.send(producer, "t", ["three"])
        assert clients.stored(first.bootstrap) == ["one", "two", "three"]
        assert "serving clients again at " in first.output
