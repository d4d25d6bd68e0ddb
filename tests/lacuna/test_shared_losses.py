"""Tests shared journals that are older than their cluster's records or have lost some, and the recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lacuna.controlplane.journal.journal import JournalInUse
from lacuna.logstore.objects import ObjectStore, open_store
from lacuna.operating.losses import AcceptedLoss, accept_shared_loss, describe
from lacuna.operating.stores import StoreAheadError
from lacuna.testing import Cluster
from tests.lacuna import clients
from tests.lacuna.test_losses import COPYING, PUTTING
from tests.postgresql import PostgresqlServer

pytestmark = pytest.mark.slow

JOURNAL = "journal/"


class Backup:
    """The earlier journal: a dump of the database, or the objects under a prefix of the bucket."""

    def __init__(self, store: ObjectStore, server: PostgresqlServer | None, url: str) -> None:
        self._store = store
        self._server = server
        self._database = urlsplit(url).path.strip("/")
        self._objects: dict[str, bytes] = {}

    def take(self, prefix: str = JOURNAL) -> None:
        if self._server is not None:
            self._server.run("pg_dump", "-Fc", "-f", "dump", self._database)
            return
        for info in self._store.list(prefix):
            self._objects[info.key] = bytes(self._store.get_all(info.key))

    def restore(self, prefix: str = JOURNAL) -> None:
        if self._server is not None:
            self._server.run("psql", "-q", "-c", "DROP SCHEMA lacuna CASCADE", self._database)
            self._server.run("pg_restore", "-d", self._database, "dump")
            return
        self._store.delete([info.key for info in self._store.list(prefix)])
        for key, data in self._objects.items():
            self._store.put(key, [data])


@pytest.fixture
def cluster(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, bucket_url: str
) -> Iterator[Cluster]:
    journal = "bucket" if kind == "bucket" else request.getfixturevalue("database")
    parts = COPYING if request.node.callspec.params.get("is_hot") else PUTTING
    with Cluster(tmp_path / "data", store=bucket_url, journal=journal, parts=parts) as made:
        yield made


@pytest.fixture
def store(bucket_url: str) -> Iterator[ObjectStore]:
    with closing(open_store(bucket_url)) as opened:
        yield opened


@pytest.fixture
def backup(
    cluster: Cluster, store: ObjectStore, kind: str, request: pytest.FixtureRequest
) -> Backup:
    server = None if kind == "bucket" else request.getfixturevalue("postgresql")
    return Backup(store, server, cluster._journal)


def accepted(cluster: Cluster, store: ObjectStore | None) -> AcceptedLoss:
    """Accept the loss in a stopped cluster, and restart it."""

    async def accept() -> AcceptedLoss:
        with cluster.journal_options.wreck() as held:
            async with held as wreck:
                return await accept_shared_loss(wreck, store)

    loss = asyncio.run(accept())
    cluster.start()
    return loss


def send(cluster: Cluster, *values: str) -> None:
    """Send each value in a separate segment."""
    for value in values:
        clients.send(clients.plain(cluster.bootstrap), "t", [value])


def producer_id(cluster: Cluster) -> int:
    return cluster.embedded.running.runtime._state.next_producer_id


def goes_on(cluster: Cluster, before: list[str]) -> None:
    """Check that old and new records are readable, including after a restart, and that transactions work."""
    producer = clients.transactional(cluster.bootstrap, "again")
    clients.transact(producer, "t", ["committed"])
    cluster.restart()
    send(cluster, "new")
    assert clients.stored(cluster.bootstrap) == [*before, "committed", "new"]


@pytest.mark.parametrize("is_hot", [False, True])
@pytest.mark.parametrize("kind", ["postgresql", "bucket"])
def test_a_journal_older_than_its_records_is_refused_and_the_loss_is_named(
    cluster: Cluster, store: ObjectStore, backup: Backup, is_hot: bool
) -> None:
    """An agent copies the newest of the hot segments to the bucket when it stops."""
    send(cluster, "kept")
    backup.take()
    send(cluster, "a", "b", "c")
    given = producer_id(cluster)
    cluster.stop()
    backup.restore()
    with pytest.raises(StoreAheadError, match=r"the journal ends at position .* was written"):
        cluster.start()
    loss = accepted(cluster, store)
    assert loss.objects is not None
    (lost,) = loss.objects.partitions.values()
    shown = 1 if is_hot else 3
    assert (lost.name, lost.segments, lost.records) == ("t [0]", shown, shown)
    assert producer_id(cluster) > given + 2**39
    goes_on(cluster, ["kept"])


@pytest.mark.parametrize("kind", ["bucket"])
def test_a_bucket_restored_as_a_whole_shows_nothing_and_goes_on_all_the_same(
    cluster: Cluster, store: ObjectStore, backup: Backup
) -> None:
    """As with --accept-loss, no identifier from the lost part is assigned again."""
    send(cluster, "kept")
    backup.take("")
    send(cluster, "lost")
    given = producer_id(cluster)
    cluster.stop()
    backup.restore("")
    loss = accepted(cluster, store)
    assert loss.problems == []
    assert "The journal itself shows no loss. The object store shows no loss either." in [
        *describe(loss)
    ]
    assert producer_id(cluster) > given + 2**39
    goes_on(cluster, ["kept"])


@pytest.mark.parametrize("kind", ["postgresql", "bucket"])
def test_nothing_is_given_up_while_a_control_plane_leads(
    cluster: Cluster, store: ObjectStore
) -> None:
    send(cluster, "kept")

    async def accept() -> None:
        with cluster.journal_options.wreck() as held:
            async with held as wreck:
                await accept_shared_loss(wreck, store)

    with pytest.raises(JournalInUse, match="is using this journal: stop it"):
        asyncio.run(accept())
    send(cluster, "more")
    assert clients.stored(cluster.bootstrap) == ["kept", "more"]
