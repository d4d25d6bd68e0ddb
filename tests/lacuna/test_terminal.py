"""Tests what a user at a terminal sees: tables of any width, Ctrl-C, and the errors of librdkafka and agents."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import pty
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from rich.console import Console

from lacuna.base.errors import UserError
from lacuna.cli import console, progress, verification
from lacuna.cli.answers import check
from lacuna.cli.console_options import ConsoleOptions
from lacuna.cli.records.librdkafka_errors import explain_error
from lacuna.controlplane.journal.connections import connect, errors_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.objects.directory import DirectoryStore
from lacuna.operating.kafka import Agents, BootstrapUnavailable, KafkaConnection, plain
from lacuna.pipeline.audit import PartitionReport
from lacuna.pipeline.audit.picture import Cell
from lacuna.testing import Cluster
from lacuna.wire.messages.groups import HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE, HeartbeatRequest

WIDTHS = [80, 100, 140, 200]


@pytest.fixture(params=WIDTHS)
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return the screen of a terminal with this width."""
    shown = io.StringIO()
    out = Console(file=shown, force_terminal=True, color_system=None, width=request.param)
    for module in (console, verification):
        monkeypatch.setattr(module, "out", out)
    return shown


def test_no_number_and_no_usual_name_is_broken(screen: io.StringIO) -> None:
    numbers = [123456789012 + each for each in range(12)]
    console.table([f"heading{each}" for each in range(13)], [["shipments.of.1", *numbers]])
    for text in ("shipments.of.1", *map(str, numbers), "heading12"):
        assert re.search(rf"(?<!\S){re.escape(text)}(?![^\s,])", screen.getvalue()), text


def test_the_partitions_of_an_audit(screen: io.StringIO) -> None:
    each = PartitionReport(
        topic="shipments.of.the.warehouse-in-amsterdam", partition=0, log_start_offset=0,
        last_stable_offset=1234567, high_watermark=1234567, extents=70, objects=62,
        bytes=13_000_000, committed=1000001, aborted=100002, compacted=100003, undecided=0,
        holes=34561, committed_records=1000001, compacted_records=0, findings=0, dead_ranges=1,
        aborted_records=0, undecided_records=0, picture=Cell.COMMITTED.value * 64,
    )  # fmt: skip
    verification._print_partitions([each])
    verification._print_pictures([each])
    lines = screen.getvalue().splitlines()
    for text in ("0-1234567", "12.4 MiB", "1000001", "100002", "100003", "34561", "█" * 64):
        assert any(text in line for line in lines), text


def test_a_paragraph_is_broken_between_words(screen: io.StringIO) -> None:
    words = [f"word-{each}" for each in range(40)]
    console.paragraph(" ".join(words))
    assert screen.getvalue().split() == words
    assert all(len(line) <= max(WIDTHS) for line in screen.getvalue().splitlines())
    assert len(screen.getvalue().splitlines()) > 1


@pytest.mark.parametrize("shown", [progress.bytes_done, progress.tasks_done, progress.offsets_done])
@pytest.mark.parametrize("width", [60, *WIDTHS])
def test_a_bar_is_one_line_and_has_all_its_figures(
    monkeypatch: pytest.MonkeyPatch, shown: Callable[[], Any], width: int
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    monkeypatch.setattr(progress, "err", Console(file=file, force_terminal=True, width=width))
    with shown() as bar:
        bar.stage("[orders] and a name that is longer than it usually is: " + "x" * width)
        bar.expect(1000 << 20)
        bar.advance(500 << 20)
        bar.hide()
        # Output after a hidden bar begins at the start of an empty line.
        hidden = file.getvalue()
        bar.advance(250 << 20)
    frames = [line for line in re.split(r"[\r\n]|\x1b\[[0-9?]+[a-zA-Z]", hidden) if line.strip()]
    half = "500.0/1,000.0 MiB" if shown is progress.bytes_done else f"{500 << 20}/{1000 << 20}"
    assert half in frames[-1]
    assert frames[-1].startswith("[orders]")
    assert all(len(line) <= width for line in frames)
    assert hidden.count("\n") <= 2, "each frame is one line"
    assert hidden.endswith("\x1b[2K")
    assert not re.search(r"\x1b\[[0-9;]*m", file.getvalue()), "NO_COLOR"


def test_without_a_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(progress, "err", Console(file=file))
    for shown in (progress.bytes_done, progress.tasks_done, progress.offsets_done):
        with shown() as bar:
            bar.stage("orders")
            bar.expect(2)
            bar.advance(1)
            bar.hide()
    assert file.getvalue() == "orders\norders\n"


class Terminal:
    """A command on its own terminal."""

    def __init__(self, *arguments: str) -> None:
        self._screen, end = pty.openpty()
        # `setsid` gives it the terminal. A fork of this process could hang on a lock that a thread holds.
        command = ["setsid", "--ctty", sys.executable, *arguments]
        self._process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end)
        os.close(end)
        self.shown = ""

    def until(self, text: str) -> None:
        """Read up to this text. Raises an error if the command ends first."""
        while text not in self.shown:
            assert self._read(), self.shown

    def interrupt(self) -> int:
        """Send Ctrl-C once. Return the exit code.

        Python ignores a signal that arrives just before a blocking system call.
        """
        while self._state() != "S":
            time.sleep(0.01)
        os.write(self._screen, b"\x03")
        while self._read():
            continue
        os.close(self._screen)
        return self._process.wait()

    def _state(self) -> str:
        """Return the process state: S while it is waiting, otherwise R or D (proc(5))."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def _read(self) -> bool:
        try:
            found = os.read(self._screen, 65536)
        except OSError:  # the command has ended
            return False
        self.shown += found.decode(errors="replace")
        return bool(found)


@pytest.mark.slow
def test_the_first_ctrl_c_ends_a_question(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data") as cluster:
        cluster.create_topic("t")
        asked = Terminal("-m", "lacuna", "topics", "delete", "t", "-b", cluster.bootstrap)
        asked.until("[y/N]: ")
        assert asked.interrupt() == 1
        assert "nothing was changed" in asked.shown


@pytest.mark.slow
def test_ctrl_c_ends_a_cluster_with_moto_without_a_trace() -> None:
    pytest.importorskip("moto")
    up = Terminal("-m", "lacuna", "up", "--moto", "--listen", "127.0.0.1:0", "--no-console")
    up.until("bootstrap: ")
    assert up.interrupt() == 0
    assert "Traceback" not in up.shown


@pytest.mark.slow
def test_an_audit_that_is_stopped_has_no_verdict(tmp_path: Path) -> None:
    """Its exit code is not 1 either, which would report a finding."""
    code = "import lacuna.pipeline.audit as audit, time; "
    code += "audit.audit = lambda *_: (print('begun', flush=True), time.sleep(600)); "
    code += "from lacuna.cli import main; main()"
    (tmp_path / "objects").mkdir()
    options = ("--data", str(tmp_path), "--metadata", "bucket", "--no-spark")
    verify = Terminal("-c", code, "verify", *options)
    verify.until("begun")
    assert verify.interrupt() == 130
    assert "stopped before it finished" in verify.shown


def test_damage_names_verify() -> None:
    assert "`lacuna verify`" in explain_error(KafkaError(KafkaError.INVALID_MSG))
    assert "`lacuna topics list`" in explain_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert explain_error(KafkaError(KafkaError._INVALID_ARG)) == "Invalid argument or configuration"


def test_no_code_is_told_as_bare_words() -> None:
    for code in set(ErrorCode) - {ErrorCode.NONE}:
        with pytest.raises(UserError) as raised:
            check(code, "it")
        assert str(raised.value) != f"it: {code.name.lower().replace('_', ' ')}"


def test_errors_of_the_system_are_told_without_numbers() -> None:
    assert plain(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")) == (
        "connection refused"
    )
    assert plain(TimeoutError()) == "timed out"
    assert plain(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"


async def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request once the second has arrived."""
        await reader.readuntil(b"second")
        writer.write(b"\0\0\0\x06\0\0\0\x01\0\0")
        await reader.read()
        writer.close()

    async def ask(group: str) -> None:
        request = HeartbeatRequest(group, 1, "m")
        await connection.ask(HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE, 0, request)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    agents = Agents(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, KafkaConnection(agents) as connection:
        connection._timeout_seconds = 0.01
        with pytest.raises(BootstrapUnavailable, match="did not answer within"):
            await ask("first")
        connection._timeout_seconds = 60.0
        with pytest.raises(BootstrapUnavailable, match="answered another request"):
            await ask("second")


def _console(_folder: Path) -> None:
    wanted = ConsoleOptions(address="127.0.0.1:0", is_chosen=True)
    with wanted.listening():
        pass


def _journal(folder: Path) -> None:
    with errors_of("journal.db"):
        connect(str(folder / "journal.db")).execute("PRAGMA journal_mode=WAL")


def _store(folder: Path) -> None:
    DirectoryStore(folder / "objects").put("a", (b"x" * 100_000,))


@pytest.mark.parametrize("opens", [_console, _journal, _store])
def test_the_advice_is_to_raise_the_limit(opens: Callable[[Path], None], tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    with no_more_files(), pytest.raises(Exception, match="open files") as raised:
        opens(tmp_path)
    said = str(raised.value)
    assert "raise the limit on open files (ulimit -n)" in said
    assert "another address" not in said


@contextmanager
def no_more_files() -> Iterator[None]:
    """Fail every attempt to open a file or a socket with EMFILE during the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 2, hard))
    try:
        while True:
            try:
                taken.append(os.dup(taken[0]))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
