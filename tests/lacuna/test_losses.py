"""Tests journals that lack or predate acknowledged records. These are rejected until the loss is accepted."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.journal import salvage
from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalError,
    JournalLoss,
    JournalOfAnotherVersion,
    Snapshot,
)
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.log_pb2 import PartitionsRead, PartitionState
from lacuna.logstore.objects import DirectoryStore, ObjectStore
from lacuna.operating.agents import AgentParts
from lacuna.operating.losses import AcceptedLoss, accept_loss, describe
from lacuna.operating.stores import StoreAheadError, _has_records
from lacuna.testing import Cluster, ProcessFailedError
from tests.forked import ForkedCluster
from tests.lacuna import clients

WITNESS = f"{JOURNAL_NAME}.acknowledged"
#: Every flush is put, so that objects show what a journal has lost.
PUTTING = AgentParts(produce=ProduceSettings(hot_bytes=0))
#: By default, a hot segment is copied to the bucket every ten seconds. These tests do not wait for that.
COPYING = AgentParts(produce=ProduceSettings(hot_copy_interval_ms=3_600_000))


async def copy_hot(cluster: Cluster) -> None:
    """Copy the newest hot segment now, if there is one."""
    for agent in cluster.embedded.agents:
        copies = agent.context.produce.flusher.copies
        copies._begin()
        if copies._putting is not None:
            await copies._putting


def copy_journal(data: Path, target: Path) -> None:
    """Back up a running cluster's journal with SQLite."""
    target.mkdir()
    for name in (JOURNAL_NAME, f"{JOURNAL_NAME}.snapshots"):
        with (
            closing(sqlite3.connect(data / name)) as source,
            closing(sqlite3.connect(target / name)) as copy,
        ):
            source.backup(copy)


def restore_journal(backup: Path, data: Path, *, with_witness: bool = False) -> None:
    """Restore the backup, as on another machine's disk, unless the witness is kept."""
    for each in data.glob(f"{JOURNAL_NAME}*"):
        if not (with_witness and each.name == WITNESS):
            each.unlink()
    for each in backup.iterdir():
        shutil.copy(each, data)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with the record `kept`. Its journal is copied to `backup`, next to its data."""
    with Cluster(tmp_path / "data", parts=PUTTING) as cluster:
        clients.send(clients.plain(cluster.bootstrap), "t", ["kept"])
        copy_journal(cluster.data, tmp_path / "backup")
        yield cluster


def lose(cluster: Cluster, *, with_witness: bool = False) -> None:
    """Write the record `lost`, and restore the earlier journal."""
    clients.send(clients.plain(cluster.bootstrap), "t", ["lost"])
    cluster.kill()
    restore_journal(cluster.data.parent / "backup", cluster.data, with_witness=with_witness)


def accepted(cluster: Cluster) -> AcceptedLoss:
    """Accept the loss in a stopped cluster, and restart it."""
    opened: ObjectStore = (
        cluster._open_store() if cluster._open_store else DirectoryStore(cluster.data / "objects")
    )
    with closing(opened) as store:
        loss = accept_loss(str(cluster.data / JOURNAL_NAME), store)
        assert accept_loss(str(cluster.data / JOURNAL_NAME), store) is None
    assert loss is not None
    cluster.start()
    return loss


def goes_on(cluster: Cluster, before: list[str]) -> None:
    """Check that old and new records are readable, including after a restart, and that transactions work."""
    clients.send(clients.plain(cluster.bootstrap), "t", ["new"])
    producer = clients.transactional(cluster.bootstrap, "again")
    clients.transact(producer, "t", ["committed"])
    for end in (cluster.kill, cluster.stop):
        end()
        cluster.start()
    assert clients.stored(cluster.bootstrap) == [*before, "new", "committed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_restarted", "moto", "hot_bytes"),
    [
        pytest.param(False, False, 0, id="same lease-folder"),
        pytest.param(False, False, 1000, id="same lease-folder-hot"),
        pytest.param(False, True, 0, id="same lease-bucket"),
        pytest.param(True, False, 0, id="later leases-folder"),
        pytest.param(True, True, 0, id="later leases-bucket"),
        pytest.param(True, True, 1000, id="later leases-bucket-hot"),
    ],
)
def test_a_journal_older_than_its_records_is_refused_and_the_loss_is_named(
    tmp_path: Path, moto: bool, is_restarted: bool, hot_bytes: int
) -> None:
    """Only one of the hot segments has a copy in the bucket."""
    parts = AgentParts(produce=replace(COPYING.produce, hot_bytes=hot_bytes))
    with Cluster(tmp_path / "data", moto=moto, parts=parts) as cluster:
        clients.send(clients.plain(cluster.bootstrap), "t", ["kept"])
        copy_journal(cluster.data, tmp_path / "backup")
        if is_restarted:
            cluster.restart()
        for value in ("a", "b", "c"):
            clients.send(clients.plain(cluster.bootstrap), "t", [value])
        cluster.run(copy_hot(cluster))
        cluster.kill()
        restore_journal(tmp_path / "backup", cluster.data)
        for _ in range(2):
            with pytest.raises(
                StoreAheadError, match=r"the journal ends at position .* was written"
            ):
                cluster.start()
        loss = accepted(cluster)
        assert loss.objects is not None
        (lost,) = loss.objects.partitions.values()
        shown = 1 if hot_bytes else 3
        assert (lost.name, lost.segments, lost.records) == ("t [0]", shown, shown)
        assert f"  t [0]: {shown} records" in "\n".join(describe(loss))
        goes_on(cluster, ["kept"])


@pytest.mark.slow
def test_commands_without_records_are_missed_too(cluster: Cluster, tmp_path: Path) -> None:
    """A created topic is in no object, but the witness next to the journal records it."""
    cluster.create_topic("made")
    cluster.kill()
    restore_journal(tmp_path / "backup", cluster.data, with_witness=True)
    with pytest.raises(JournalLoss, match=r"positions \d+ to \d+ are missing"):
        cluster.start()
    loss = accepted(cluster)
    assert loss.objects is not None
    assert loss.objects.segments == 0
    assert loss.reached > loss.position
    goes_on(cluster, ["kept"])


@pytest.mark.slow
def test_what_is_whole_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    """This includes segments that were written but never committed."""
    cluster.kill()
    journal = cluster.data / JOURNAL_NAME
    before = journal.read_bytes()
    with closing(DirectoryStore(cluster.data / "objects")) as store:
        assert accept_loss(str(journal), store) is None
    assert journal.read_bytes() == before
    assert accept_loss(str(tmp_path / "none"), None) is None


@pytest.mark.slow
def test_without_the_store_the_positions_go_on_beyond_every_segment(cluster: Cluster) -> None:
    """`lacuna controlplane --accept-loss` does the same, so that agents with a newer store can start."""
    lose(cluster)
    loss = accept_loss(str(cluster.data / JOURNAL_NAME), None)
    assert loss is not None
    assert "No object store is configured here" in "\n".join(describe(loss))
    cluster.start()
    goes_on(cluster, ["kept"])


def damage_row(data: Path) -> None:
    with closing(sqlite3.connect(data / JOURNAL_NAME)) as connection:
        connection.execute(
            "UPDATE batches SET crc=crc+1 WHERE position=(SELECT max(position) FROM batches)"
        )
        connection.commit()


def damage_page(data: Path) -> None:
    """Damage the root page of the tables. The snapshot then contains the intact part."""
    path = data / JOURNAL_NAME
    path.write_bytes(path.read_bytes()[:100] + bytes(200) + path.read_bytes()[300:])


def damage_snapshots(data: Path) -> None:
    path = data / f"{JOURNAL_NAME}.snapshots"
    path.write_bytes(b"no database at all" * 100)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [damage_row, damage_page, damage_snapshots])
def test_other_damage_can_be_accepted_too(cluster: Cluster, damage: Callable[[Path], None]) -> None:
    cluster.run(store_snapshot(cluster))
    cluster.stop()
    damage(cluster.data)
    with pytest.raises(JournalError):
        cluster.start()
    loss = accepted(cluster)
    assert loss.problems
    kept = {each.name for each in Path(loss.kept).iterdir()}
    assert {JOURNAL_NAME, f"{JOURNAL_NAME}.snapshots", WITNESS} <= kept
    goes_on(cluster, ["kept"])


@pytest.mark.slow
def test_hot_segments_that_are_lost_with_their_journal_are_counted(tmp_path: Path) -> None:
    """The snapshot still refers to them. The newest one has a copy in the bucket."""
    with Cluster(tmp_path / "data") as cluster:
        clients.send(clients.plain(cluster.bootstrap), "t", ["a"])
        clients.send(clients.plain(cluster.bootstrap), "t", ["b", "c"])
        cluster.run(store_snapshot(cluster))
        cluster.stop()
        damage_page(cluster.data)
        loss = accepted(cluster)
        assert loss.objects is not None
        assert loss.objects.missing == {"t [0]": 1}
        assert "t [0]: 1 records" in "\n".join(describe(loss))


def append_record(path: str) -> None:
    """Append a record of a type that this version does not know."""

    async def append() -> None:
        journal = SqliteJournal(path, lambda: "made")
        opened = await journal.open(None)
        await journal.append([JournalRecord(now_ms=1).SerializeToString()], opened.fencing_token)
        await journal.close()

    asyncio.run(append())


def raise_format(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value=2 WHERE key='format_version'")
        connection.commit()


@pytest.mark.parametrize("write", [raise_format, append_record])
def test_what_a_later_version_wrote_is_no_loss(
    cluster: Cluster, write: Callable[[str], None]
) -> None:
    """Nothing is discarded, even if an operator would accept it."""
    cluster.stop()
    write(str(cluster.data / JOURNAL_NAME))
    for attempt in (cluster.start, partial(accepted, cluster)):
        with pytest.raises(JournalOfAnotherVersion) as refused:
            attempt()
        assert str(refused.value).count("install the version that wrote it") == 1
    assert not [*cluster.data.glob("*.kept-*")]


async def store_snapshot(cluster: Cluster) -> None:
    runtime = cluster.embedded.running.runtime
    await runtime._journal.store_snapshot(
        Snapshot(runtime.durable_position, (runtime.serialized_state(),))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_keep", "_store_snapshot", "_write", "_sync_directory"])
def test_a_crash_while_a_loss_is_accepted_leaves_it_to_be_accepted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The crash follows immediately after each step."""
    lose(cluster, with_witness=True)
    step = getattr(salvage, name)

    def crash(*arguments: object) -> None:
        step(*arguments)
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patched,
        closing(DirectoryStore(cluster.data / "objects")) as store,
    ):
        patched.setattr(salvage, name, crash)
        with pytest.raises(KeyboardInterrupt):
            accept_loss(str(cluster.data / JOURNAL_NAME), store)
    if name == "_sync_directory":
        cluster.start()
    else:
        with pytest.raises(JournalCorrupt):
            cluster.start()
        accepted(cluster)
    goes_on(cluster, ["kept"])


@pytest.mark.parametrize(("high_watermark", "calls"), [(1, 1), (0, 3)])
async def test_the_search_for_records_ends_at_the_first(high_watermark: int, calls: int) -> None:
    """The control plane is queried about 1000 partitions at once."""
    control = AsyncMock(ControlClient)
    control.cluster.topics_by_id = {b"t": Topic(topic_id=b"t", partition_count=2001)}
    states = PartitionsRead(partitions=[PartitionState(high_watermark=high_watermark)])
    control.call.return_value = Reply(partitions_read=states)
    assert await _has_records(control) == bool(high_watermark)
    assert control.call.await_count == calls


@pytest.mark.slow
def test_up_says_what_is_wrong_and_what_is_lost(tmp_path: Path) -> None:
    """After SIGKILL and one flipped bit in the log, `lacuna up` is started again."""
    with ForkedCluster(tmp_path / "data", ["--set=produce.hot.bytes=0"]) as up:
        producer = clients.plain(up.bootstrap)
        for number in range(40):
            clients.send(producer, "t", [str(number)])
        up.kill()
        wal = up.data / f"{JOURNAL_NAME}-wal"
        content = bytearray(wal.read_bytes())
        content[-1000] ^= 1
        wal.write_bytes(content)
        with pytest.raises(ProcessFailedError, match=r"are missing.*--accept-loss"):
            up.start()
    with ForkedCluster(up.data, ["--accept-loss"]) as again:
        assert "t [0]: 1 records" in again.output
        assert clients.stored(again.bootstrap) == [str(number) for number in range(39)]
