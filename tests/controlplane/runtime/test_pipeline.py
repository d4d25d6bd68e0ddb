"""Tests the runtime with the process that makes snapshots of a journal in SQLite."""

import asyncio
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from lacuna.controlplane.journal.snapshot_process import SnapshotProcess
from lacuna.controlplane.journal.snapshots import snapshots_path
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.runtime import RuntimeSettings
from tests.controlplane.runtime.rig import Rig, commit, created


def rig_on(path: str) -> Rig:
    journal = SqliteJournal(path, lambda: "cluster")
    return Rig(journal, RuntimeSettings(snapshot_records=40), SnapshotProcess(journal))


def rows(path: str, query: str) -> list[tuple[int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_a_snapshot_whose_process_cannot_start_is_told_and_another_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "control.db")
    rig = await rig_on(path).start()
    client = rig.client()
    topic_id = await created(client)
    async with asyncio.timeout(60):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(tmp_path / "no-python"))
            while not caplog.records:
                await client.call(commit(topic_id))
                await asyncio.sleep(0)
        while not rows(snapshots_path(path), "SELECT position FROM snapshots"):
            await client.call(commit(topic_id))
            await asyncio.sleep(0.01)
    assert re.search(
        "the next attempt follows after 40 records .*/no-python could not be started as the snapshot "
        "process: .*No such file",
        caplog.records[0].getMessage(),
    )
    await rig.plane.close()


async def test_snapshots_of_another_process_bound_journal_and_restart(tmp_path: Path) -> None:
    """The runtime requests a snapshot, the process writes it, the journal is trimmed, and a restart loads it."""
    path = str(tmp_path / "control.db")
    rig = await rig_on(path).start()
    client = rig.client()
    topic_id = await created(client)
    positions: set[int] = set()
    trimmed = 0
    while len(positions) < 3 or not trimmed:
        for _ in range(20):
            await client.call(commit(topic_id))
        await asyncio.sleep(0.01)
        trimmed = rows(path, "SELECT value FROM meta WHERE key='trimmed'")[0][0]
        if Path(snapshots_path(path)).exists():
            found = rows(snapshots_path(path), "SELECT DISTINCT position FROM snapshots")
            assert all(trimmed <= position for (position,) in found)
            positions |= {position for (position,) in found}
    before = rig.plane.serialized_state()
    await rig.restart()
    assert rig.plane.serialized_state() == before
    await rig.plane.close()
