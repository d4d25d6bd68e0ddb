"""Tests `lacuna controlplane` and `lacuna agent` as processes of a manually assembled cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lacuna.testing.ports import lasting_ports
from tests.clients.librd import eventually
from tests.clients.probing import Target
from tests.forked import start_process

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command


@contextmanager
def running(ready: str, *arguments: str) -> Iterator[str]:
    """Run a command until Ctrl-C. Yield the rest of its line that begins with `ready`."""
    process = start_process(
        [sys.executable, "-m", "lacuna", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(ready)
        yield line.removeprefix(ready).strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["tcp", pytest.param("unix", marks=pytest.mark.slow)])
def listen(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/c.sock"


def test_two_agents_of_one_control_plane(
    tmp_path: Path, listen: str, clients: SimpleNamespace, lacuna: Command
) -> None:
    """Any agent serves the other's records. An agent that stops leaves Metadata at once."""
    data = ("--data", str(tmp_path / "data"))
    with running("control plane: ", "controlplane", "--listen", listen, *data) as control:
        with grpc.insecure_channel(control) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", "ready", "controlplane.v1.ControlPlane"):
                answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
        options = ("--control", control, "--objects", str(tmp_path / "objects"))
        agent = ("bootstrap: ", "agent", "--listen", "127.0.0.1:0", *options)
        with running(*agent) as one:
            with running(*agent) as two:
                producer = clients.transactional(one, "t")
                producer.begin_transaction()
                clients.send(producer, "t", ["x"])
                producer.commit_transaction(60)
                assert clients.consume(two, "t", 1) == [(0, "x")]
                assert brokers(one) == brokers(two) == sorted([one, two])
            eventually(lambda: brokers(one), [one])
            assert [row[2] for row in lacuna("explain", "t", "--control", control).rows[1:]] == [
                "delivered"
            ]


def brokers(bootstrap: str) -> list[str]:
    """Return the running brokers. Metadata also lists departed ones."""
    asked = Target(bootstrap).call(
        "describe_cluster", 0, include_cluster_authorized_operations=False
    )
    return sorted(f"{broker['host']}:{broker['port']}" for broker in asked["brokers"])


def test_status_without_a_control_plane_lists_the_agents(tmp_path: Path, lacuna: Command) -> None:
    (port,) = lasting_ports(1)
    control = f"127.0.0.1:{port}"
    options = ("--control", control, "--objects", str(tmp_path / "objects"))
    with ExitStack() as stack:
        plane = ("control plane: ", "controlplane", "--listen", control, "--data", str(tmp_path))
        with running(*plane):
            agent = stack.enter_context(
                running("bootstrap: ", "agent", "--listen", "127.0.0.1:0", *options)
            )
            assert lacuna("status", "-b", agent).code == 0
        told = lacuna("status", "-b", agent, "--json")
    assert told.code == 1
    assert "the control plane does not answer; check that it runs" in told.err
    (shown,) = json.loads(told.out)["agents"]
    assert (shown["agent"], shown["address"]) == (1, agent)
