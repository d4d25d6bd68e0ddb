"""Tests `lacuna controlplane` and `lacuna agent` as processes that wait for each other and report readiness, and the
commands that move a journal or set its time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from moto.server import ThreadedMotoServer

from lacuna.controlplane.client import ControlPlace
from lacuna.controlplane.client.session import SessionLimits
from lacuna.controlplane.service import ServiceSettings, serve
from lacuna.operating.control import client_of, until_answered
from lacuna.operating.moto import CREDENTIALS
from lacuna.testing import Cluster
from lacuna.testing.ports import lasting_ports
from tests.clients.librd import eventually
from tests.clients.probing import Target
from tests.forked import Started, start_process
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


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


@pytest.mark.slow
def test_two_agents_of_one_control_plane(tmp_path: Path, listen: str, lacuna: Command) -> None:
    """Any agent serves the other's records. An agent that stops disappears from Metadata immediately."""
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
                clients.transact(producer, "t", ["x"])
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


@pytest.mark.slow
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
            assert lacuna("status", "-b", agent, "--json").problems_of_cluster == []
        told = lacuna("status", "-b", agent, "--json")
    assert told.code == 1
    status = json.loads(told.out)
    assert "control plane" in [each["part"] for each in status["problems"]]
    (shown,) = status["agents"]
    assert (shown["agent"], shown["address"]) == (1, agent)


@pytest.mark.slow
async def test_a_control_plane_that_comes_late_is_awaited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{lasting_ports(1)[0]}"
    told = asyncio.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    handler = Told()
    logging.getLogger("lacuna").addHandler(handler)
    try:
        async with client_of(ControlPlace(address), SessionLimits(give_up_after=0.05)) as client:
            waiting = asyncio.create_task(until_answered(client.cluster.ready))
            await told.wait()
            assert not waiting.done()
            served = await serve(
                address, str(tmp_path / "journal"), ServiceSettings(stop_grace=0.0)
            )
            try:
                await waiting
                assert client.cluster.cluster_id
            finally:
                await served.close()
    finally:
        logging.getLogger("lacuna").removeHandler(handler)
    (said,) = caplog.messages
    assert said.startswith(f"no control plane answered at {address} ")
    assert said.endswith("trying again until a control plane answers")


SECONDS = 60.0


@contextmanager
def service(*arguments: str, **environment: str) -> Iterator[Started]:
    """Run `lacuna ARGUMENTS`, and kill it at the end."""
    process = start_process(
        [sys.executable, "-m", "lacuna", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stopped(process: Started) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_systemd_is_told_when_a_service_serves_and_when_it_stops(tmp_path: Path) -> None:
    """Each notification is sent once, even if a service has several processes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(SECONDS)
        notify = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        address = f"unix:{tmp_path}/control"
        plane = ("controlplane", f"--listen={address}", f"--data={tmp_path / 'data'}")
        agent = ("agent", f"--control={address}", f"--objects={tmp_path / 'objects'}")
        with service(*plane, **notify) as one:
            assert manager.recv(64) == b"READY=1"
            with service(*agent, "--listen=127.0.0.1:0", "--workers=2", **notify) as two:
                assert manager.recv(64) == b"READY=1"
                stopped(two)
                assert manager.recv(64) == b"STOPPING=1"
            stopped(one)
            assert manager.recv(64) == b"STOPPING=1"


def test_a_control_plane_waits_for_its_database_and_is_not_ready(tmp_path: Path) -> None:
    options = (
        f"--listen=unix:{tmp_path}/control",
        f"--journal=postgresql://lacuna@/x?host={tmp_path}",
    )
    with service("controlplane", *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("control plane: ")
        assert "PostgreSQL cannot be reached" in process.stderr.readline()
        with grpc.insecure_channel(f"unix:{tmp_path}/control") as channel:
            health = health_pb2_grpc.HealthStub(channel)
            found = {
                name: health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
                for name in ("", "ready")
            }
        states = health_pb2.HealthCheckResponse
        assert {name: answer.status for name, answer in found.items()} == {
            "": states.SERVING,
            "ready": states.NOT_SERVING,
        }
        stopped(process)


@pytest.mark.slow
def test_a_control_plane_and_an_agent_wait_for_the_bucket(tmp_path: Path) -> None:
    """The first process that is allowed to creates the bucket."""
    port, health = lasting_ports(2)
    store = f"--store=s3://lacuna?endpoint=http://127.0.0.1:{port}"
    address = f"unix:{tmp_path}/control"
    plane = ("controlplane", f"--listen={address}", "--journal=bucket", store, "--create-bucket")
    where = ("--listen=127.0.0.1:0", f"--health=127.0.0.1:{health}")
    agent = ("agent", f"--control={address}", store, "--create-bucket", *where)
    with service(*plane, **CREDENTIALS) as one, service(*agent, **CREDENTIALS) as two:
        for process in (one, two):
            assert process.stderr is not None
            assert "; trying again" in process.stderr.readline()
        assert urlopen(f"http://127.0.0.1:{health}/healthz", timeout=SECONDS).read() == b"ok\n"
        with pytest.raises(HTTPError) as not_ready:
            urlopen(f"http://127.0.0.1:{health}/readyz", timeout=SECONDS)
        assert b"the agent is starting" in not_ready.value.read()
        s3 = ThreadedMotoServer(port=port)
        s3.start()
        try:
            assert one.stdout is not None
            assert two.stdout is not None
            assert one.stdout.readline().startswith("control plane: ")
            assert two.stdout.readline().startswith("bootstrap: ")
            stopped(two)
            stopped(one)
        finally:
            s3.stop()


@pytest.mark.slow
def test_a_cluster_moves_to_postgresql_and_its_clients_go_on(
    tmp_path: Path, database: str, lacuna: Command, refused: Refusal
) -> None:
    """The transactional id is moved too, and no process can continue with the old file."""
    ends = ("--from", "sqlite:data", "--to", database)
    with Cluster(tmp_path / "data") as cluster:
        producer = clients.transactional(cluster.bootstrap, "t")
        clients.transact(producer, "t", ["before"])
        clients.transact(producer, "t", ["never"], commits=False)
        said = refused("controlplane", "copy", *ends)
        assert "another control plane is running on this data" in said
    assert [row[0].split()[0] for row in lacuna("controlplane", "copy", *ends).rows[:3]] == [
        "copied",
        "position",
        "sha256",
    ]
    assert "which a copy does not overwrite" in refused("controlplane", "copy", *ends)

    journal = ("--journal", database)
    with running("control plane: ", "controlplane", "--listen", "127.0.0.1:0", *journal) as control:
        store = ("--objects", str(tmp_path / "data" / "objects"))
        options = ("--control", control, "--listen", "127.0.0.1:0", *store)
        with running("bootstrap: ", "agent", *options) as agent:
            again = clients.transactional(agent, "t")
            clients.transact(again, "t", ["after"])
            assert clients.consume(agent, "t", 2) == [(0, "before"), (2, "after")]
    said = refused("up", "--data", "data", "--listen", "127.0.0.1:0")
    assert "or copied elsewhere, and the cluster continued there" in said


def test_the_time_is_set_to_the_clock_while_no_control_plane_runs(
    tmp_path: Path, lacuna: Command, refused: Refusal
) -> None:
    command = ("controlplane", "set-time", "--data", "data")
    assert "data contains no journal, so nothing was changed" in refused(*command)
    with Cluster(tmp_path / "data") as cluster:
        cluster.advance(30 * 86_400_000)
        assert "another control plane is running on this data" in refused(*command)
    before, now = (datetime.fromisoformat(row[0].split()[1]) for row in lacuna(*command).rows)
    assert before - now > timedelta(days=29)
    again, _ = (datetime.fromisoformat(row[0].split()[1]) for row in lacuna(*command).rows)
    assert again == now


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("sqlite:none", "bucket", "none contains no journal, so nothing was changed"),
        ("sqlite:", "bucket", "sqlite: lacks a path: use sqlite:PATH"),
        (
            "data",
            "bucket",
            "'data' is not a journal: use sqlite:PATH (a file, or a data folder), postgresql://USER",
        ),
        ("sqlite:file", "bucket", "specify the bucket with --store s3://BUCKET/PREFIX"),
        (
            "sqlite:file",
            "sqlite:no/folder/file",
            "cannot write next to no/folder/file: No such file",
        ),
    ],
)
def test_ends_that_cannot_be_used(
    tmp_path: Path, refused: Refusal, source: str, target: str, expected: str
) -> None:
    (tmp_path / "file").touch()
    assert expected in refused("controlplane", "copy", "--from", source, "--to", target)
