"""Tests that a journal whose file is deleted while open acknowledges nothing more, and reports it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lacuna.controlplane import service
from lacuna.controlplane.journal.journal import JournalError
from lacuna.controlplane.journal.sqlite import SqliteJournal
from lacuna.controlplane.service import ServiceSettings, serve


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    """Replace the files, as restoring a backup does."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
@pytest.mark.parametrize("lose", [delete, replace, move_folder])
async def test_nothing_is_acknowledged_any_more(
    tmp_path: Path, name: str, lose: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    journal = SqliteJournal(str(folder / "journal.db"), lambda: "c")
    opened = await journal.open(None)
    assert await journal.append([b"a"], opened.fencing_token) == 1
    lose(folder / name)
    with pytest.raises(JournalError, match=f"{name} was deleted, moved or replaced|was deleted"):
        await journal.append([b"b"], opened.fencing_token)
    await journal.close()


async def test_it_is_noticed_though_nobody_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_WATCH_SECONDS", 0.01)
    path = tmp_path / "journal.db"
    running = await serve(f"unix:{tmp_path}/s", str(path), ServiceSettings())
    path.unlink()
    with pytest.raises(
        JournalError, match=r"Nothing is acknowledged any more: stop everything that uses"
    ):
        async with asyncio.timeout(60):
            await running.failed()
    await running.close()
