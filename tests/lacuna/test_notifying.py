"""Tests what supervisors see: services that report readiness, and that wait for missing dependencies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from moto.server import ThreadedMotoServer

from lacuna.operating.moto import CREDENTIALS
from lacuna.testing.ports import lasting_ports
from tests.forked import Started, start_process

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
    """The first process with the right to do so creates it."""
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
