"""Tests that a process without free file descriptors never blames an address or a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lacuna.cli.console_options import ConsoleOptions
from lacuna.controlplane.journal.connections import connect, errors_of
from lacuna.logstore.objects.directory import DirectoryStore
from tests.descriptors import no_more_files

pytest.importorskip("uvicorn")


def _console(_folder: Path) -> None:
    wanted = ConsoleOptions(address="127.0.0.1:0", is_chosen=True, names=(), may_write=False)
    with wanted.listening():
        pass


def _journal(folder: Path) -> None:
    with errors_of("journal.db"):
        connect(str(folder / "journal.db")).execute("PRAGMA journal_mode=WAL")


def _store(folder: Path) -> None:
    DirectoryStore(folder / "objects").put("a", (b"x" * 100_000,))


@pytest.mark.parametrize("opens", [_console, _journal, _store])
def test_the_advice_is_to_raise_the_limit(opens: Callable[[Path], None], tmp_path: Path) -> None:
    with no_more_files(), pytest.raises(Exception, match="open files") as raised:
        opens(tmp_path)
    said = str(raised.value)
    assert "raise the limit of open files (ulimit -n)" in said
    assert "another address" not in said
