"""Tests failures of the journal's database under load (S2, S3, S5, adr/0026)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgresql import PostgresqlServer, binaries

from .checked_load import Load
from .processes import Deployment, Process
from .wires import Fault, Wire

#: Longer than a lease, so that the leader has lost its leadership by then.
FAULT_SECONDS = 5.0
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(binaries() is None, reason="needs a PostgreSQL server"),
]


class Cluster:
    """Two control planes, each with its own wire to one database, and two agents."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.server = PostgresqlServer(binaries() or "")
        stack.callback(self.server.stop)
        self.server.start()
        self.server.make_database("journal")
        self.wires = [stack.enter_context(Wire(self.server.socket_path)) for _ in range(2)]
        journals = [
            [f"--journal={self.server.tcp_url('journal', wire.address)}"] for wire in self.wires
        ]
        store = f"file://{folder / 'objects'}"
        made = Deployment(folder / "control", 2, [f"--store={store}"], journals=journals)
        self.deployment = stack.enter_context(made)
        self.load = Load(self.deployment, pause=0.01)

    def wire_of(self, control: Process) -> Wire:
        return self.wires[self.deployment.controls.index(control)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def test_the_server_is_killed_and_restarted(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.server.restart()
        cluster.load.await_commits(time.monotonic())
    assert cluster.load.violations() == []


def test_nobody_reaches_it_for_a_while(cluster: Cluster) -> None:
    """Writes in flight may have succeeded or not. The next leader resolves them."""
    for fault in FAULTS:
        for wire in cluster.wires:
            wire.suffer(fault)
        time.sleep(FAULT_SECONDS)
        for wire in cluster.wires:
            wire.mend()
        cluster.load.await_commits(time.monotonic())
    assert cluster.load.violations() == []


def test_the_leader_alone_does_not_reach_it(cluster: Cluster) -> None:
    """The other one takes over."""
    for fault in FAULTS:
        leader = cluster.deployment.leader()
        wire = cluster.wire_of(leader)
        wire.suffer(fault)
        cluster.load.await_commits(time.monotonic())
        assert cluster.deployment.leader() is not leader
        wire.mend()
    assert cluster.load.violations() == []
