"""Lacuna as in the project's compose.yaml: all but the client, each in a container."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.compat.clients import HERE, ROOT

COMPOSE_SHAPE = "containers: two agents, two control planes, PostgreSQL, moto's S3"
#: What they depend on is started too.
_SERVICES = ("agent-1", "agent-2")
_BUILD_SECONDS = 900
_SECONDS = 300.0
_READY_SECONDS = 120.0


class ComposeError(RuntimeError):
    """Docker is missing, or compose failed; the message ends with its output."""


def is_possible() -> bool:
    """Whether a Docker engine answers and BASE_IMAGE names an image to build on; `. .ci/docker.sh` provides both."""
    if shutil.which("docker") is None or "BASE_IMAGE" not in os.environ:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def composed(folder: Path) -> Iterator[str]:
    """Builds the image if necessary and runs the containers for the block; yields both agents' addresses."""
    if not is_possible():
        raise ComposeError("compose needs a Docker engine and BASE_IMAGE: run `. .ci/docker.sh`")
    ports = _free_ports()
    project = f"lacuna-compat-{uuid.uuid4().hex[:8]}"
    log = folder / "compose.log"
    try:
        _compose(project, ports, log, _BUILD_SECONDS, "up", "-d", "--build", *_SERVICES)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        _await_agents(bootstrap)
        yield bootstrap
    finally:
        _compose(project, ports, log, _SECONDS, "down", "--volumes", "--timeout", "5")


def _compose(
    project: str, ports: tuple[int, int], log: Path, seconds: float, *arguments: str
) -> None:
    found = shutil.which("docker-compose")
    files = ["-f", str(ROOT / "compose.yaml"), "-f", str(HERE / "compose.yaml")]
    command = [*([found] if found else ["docker", "compose"]), "-p", project, *files, *arguments]
    environment = {"COMPAT_PORT_1": str(ports[0]), "COMPAT_PORT_2": str(ports[1])}
    with log.open("ab") as out:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    if done.returncode:
        raise ComposeError(f"{arguments[0]} failed; it ends: {log.read_text()[-2000:]}")


def _await_agents(bootstrap: str) -> None:
    """Waits until both agents are in Metadata. Raises ComposeError."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _READY_SECONDS
    found = 0
    while found < 2:
        if time.monotonic() > deadline:
            raise ComposeError(f"{found} of two agents came up within {_READY_SECONDS:.0f} s")
        with contextlib.suppress(KafkaException):  # nothing is listening yet
            found = len(admin.list_topics(timeout=5).brokers)
        admin.poll(0.2)


def _free_ports() -> tuple[int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return one.getsockname()[1], two.getsockname()[1]
