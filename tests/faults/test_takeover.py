"""Tests that the leader of several control planes fails in every way, and clients see only a pause (S2, S3,
S5, S26).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from lacuna.controlplane.shared_service import ask_status
from lacuna.logstore.objects import bucket_url
from lacuna.operating.moto import CREDENTIALS
from lacuna.operating.stores import open_checked

from .asking import Asking
from .checked_load import Load
from .foreign import NEEDS, missing
from .outages import Outage
from .processes import Deployment


@pytest.fixture(params=["postgresql", "bucket"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """Two control planes on one journal, and two agents."""
    if request.param == "postgresql":
        store = f"file://{tmp_path / 'objects'}"
        journal = [f"--journal={request.getfixturevalue('database')}"]
    else:
        endpoint = request.getfixturevalue("moto_endpoint")
        store = bucket_url(f"lacuna/{uuid4()}", endpoint=endpoint)
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        open_checked(store, create_bucket=True).close()
        journal = ["--journal=bucket", f"--store={store}"]
    with Deployment(
        tmp_path / "control",
        2,
        [f"--store={store}"],
        control_planes=2,
        journal=journal,
    ) as made:
        yield made


@contextmanager
def loaded(cluster: Deployment, foreign: Sequence[str] = ()) -> Iterator[Load]:
    """Run the load around the body, and check it."""
    load = Load(cluster, foreign)
    yield load
    load.await_more()
    assert load.violations() == []


def epoch(address: str) -> int:
    status = asyncio.run(ask_status(address))
    assert status is not None
    return status.epoch


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing()), reason="needs a JDK, Maven and Go")
@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_a_standby_takes_over(cluster: Deployment, way: str) -> None:
    """Each leader fails in turn and returns as a standby. librdkafka, Java and franz-go continue."""
    with loaded(cluster, list(NEEDS)) as load:
        for _ in range(2):
            leader = cluster.leader()
            if way == "killed":
                leader.kill()
            else:
                leader.stop()
            load.await_commits(time.monotonic())
            assert cluster.leader() is not leader
            leader.start()
    assert epoch(cluster.controls[0].address) >= 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_leader_that_was_suspended_never_answers_under_its_old_epoch(cluster: Deployment) -> None:
    """Requests sent during the suspension reach it when it resumes, over connections that are still open."""
    with loaded(cluster) as load:
        old = cluster.leader()
        before = epoch(old.address)
        with Asking(old.address) as asking:
            old.pause()
            suspended = time.monotonic()
            load.await_more()
            new = next(each for each in cluster.controls if each is not old)
            assert epoch(new.address) > before
            old.resume()
            load.await_more()
            assert cluster.leader() is new
            # It stands by for the new leader now, whose epoch it tells.
            while epoch(old.address) != epoch(new.address):
                pass
            assert max(asking.asked.values()) > suspended + 1, "it was asked while it slept"
            assert asking.answered_late(suspended) == []


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing()), reason="needs a JDK, Maven and Go")
@pytest.mark.parametrize("cluster", ["postgresql"], indirect=True)
def test_all_of_them_are_away_for_a_while(cluster: Deployment) -> None:
    """S7, S26: the outage exceeds the time for which agents trust their state, and a member's session."""
    outage = Outage(cluster, 25)
    outage.watch()
    assert outage.wrong == []
