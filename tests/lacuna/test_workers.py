"""Tests that several workers behind one port start and stop together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from lacuna.cli.workers import reserved_port
from lacuna.testing import ProcessCluster
from lacuna.testing.ports import lasting_ports
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

SECONDS = 60.0
OPTIONS = ["--workers", "2"]


def children(pid: int) -> dict[int, list[str]]:
    """Return the children: process id → arguments."""
    found: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                words = (stat.parent / "cmdline").read_text().split("\0")
                found[int(stat.parent.name)] = words
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_the_end_of(pids: Iterable[int]) -> None:
    deadline = time.monotonic() + SECONDS
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "they still run"
        time.sleep(0.05)


@pytest.mark.slow
def test_two_workers_are_one_cluster(tmp_path: Path, lacuna: Command) -> None:
    """One worker serves another's records, and Metadata lists them as one agent."""
    with ProcessCluster(tmp_path / "d", OPTIONS) as up:
        assert len(children(up.pid)) == 3
        for number in range(8):  # each with new connections: the kernel distributes them
            producer = clients.transactional(up.bootstrap, f"t{number}")
            clients.transact(producer, "t", [f"v{number}"])
        for _ in range(4):
            read = clients.consume(up.bootstrap, "t", 8)
            assert [value for _, value in read] == [f"v{number}" for number in range(8)]
        rows = lacuna("explain", "t", "--data", str(up.data)).rows
        assert {row[2] for row in rows[1:]} == {"delivered"}
        up.restart()
        assert len(clients.consume(up.bootstrap, "t", 8)) == 8


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["agent", "controlplane"])
def test_the_death_of_one_ends_all_with_an_error(tmp_path: Path, victim: str) -> None:
    arguments = ["up", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", *OPTIONS]
    process = subprocess.Popen(
        [sys.executable, "-m", "lacuna", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    started = children(process.pid)
    pid = next(pid for pid, words in started.items() if victim in words)
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert f"process {pid} was ended by SIGKILL" in err.splitlines()[-1]
    assert not any(is_running(each) for each in started)


@pytest.mark.slow
def test_a_killed_supervisor_leaves_nobody_behind(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "d", OPTIONS) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["x"])
        started = children(up.pid)
        up.kill()
        wait_for_the_end_of(started)
        up.start()  # on the same port and data
        assert clients.consume(up.bootstrap, "t", 1) == [(0, "x")]


def test_workers_do_not_join_the_port_of_others(tmp_path: Path, refused: Refusal) -> None:
    """With SO_REUSEPORT alone, the kernel would divide clients between two clusters."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        said = refused("up", "--data", str(tmp_path / "d"), "--listen", address, *OPTIONS)
        assert said.startswith(f"cannot listen on {address}")


def test_workers_take_the_port_that_a_single_process_has_just_left() -> None:
    """Closed connections linger for a minute without sharing the port."""
    with socket.create_server(("127.0.0.1", 0)) as left:
        host, port = left.getsockname()
        with socket.create_connection((host, port)) as client:
            accepted, _ = left.accept()
            accepted.close()
            assert client.recv(1) == b""
    with reserved_port(host, port) as taken:
        assert taken == port


@pytest.mark.slow
def test_each_worker_shows_the_metrics_of_all(tmp_path: Path) -> None:
    """Every worker reports the requests of both, and the control plane's metrics."""
    (port,) = lasting_ports(1)
    with ProcessCluster(tmp_path / "d", [*OPTIONS, f"--health=127.0.0.1:{port}"]) as up:
        for number in range(8):
            clients.send(clients.plain(up.bootstrap), "t", [f"v{number}"])
        for _ in range(4):
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
                lines = answer.read().decode().splitlines()
            produced = [
                float(line.split()[-1])
                for line in lines
                if line.startswith('lacuna_requests_total{api="Produce"')
            ]
            assert sum(produced) == 8
            assert 'lacuna_controlplane_leader{worker="controlplane"} 1.0' in lines
            assert 'lacuna_topic_offsets_total{topic="t",worker="controlplane"} 8.0' in lines
            for worker in ("1", "2"):
                assert f'lacuna_agent_ready{{worker="{worker}"}} 1.0' in lines
