"""Runs Lacuna from the project's compose.yaml without its client. Each service is a container."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.compat.clients import HERE, ROOT
from tests.compat.clusters import Address, free_ports
from tests.compat.security import Security

COMPOSE_SHAPE = "containers: two agents, two control planes, PostgreSQL, moto's S3"
#: What they depend on is started too.
_SERVICES = ("agent-1", "agent-2")
_BUILD_SECONDS = 900
_SECONDS = 300.0
_READY_SECONDS = 120.0
#: Where the containers see the folder of what secures their listeners.
SEEN_AS = "/security"


class ComposeError(RuntimeError):
    """Docker is missing, or compose failed. The message ends with its output."""


def is_possible() -> bool:
    """Return whether a Docker engine answers and BASE_IMAGE names a base image. `. .ci/docker.sh` provides both."""
    if shutil.which("docker") is None or "BASE_IMAGE" not in os.environ:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def composed(folder: Path, security: Security) -> Iterator[Address]:
    """Build the image if necessary and run the containers for the block. Yield the addresses of both agents.

    The containers see `security` as SEEN_AS.
    """
    if not is_possible():
        raise ComposeError("compose needs a Docker engine and BASE_IMAGE: run `. .ci/docker.sh`")
    ports = free_ports(4)
    environment = {f"COMPAT_PORT_{number}": str(port) for number, port in enumerate(ports, 1)}
    environment["COMPAT_SECURITY"] = str(security.config.parent)
    project = f"lacuna-compat-{uuid.uuid4().hex[:8]}"
    log = folder / "compose.log"
    try:
        _compose(project, environment, log, _BUILD_SECONDS, "up", "-d", "--build", *_SERVICES)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        bootstrap = ",".join(addresses[:2])
        _await_agents(bootstrap)
        yield Address(bootstrap, ",".join(addresses[2:]))
    finally:
        _compose(project, environment, log, _SECONDS, "down", "--volumes", "--timeout", "5")


def _compose(
    project: str, environment: dict[str, str], log: Path, seconds: float, *arguments: str
) -> None:
    found = shutil.which("docker-compose")
    files = ["-f", str(ROOT / "compose.yaml"), "-f", str(HERE / "compose.yaml")]
    command = [*([found] if found else ["docker", "compose"]), "-p", project, *files, *arguments]
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
    """Wait until Metadata lists both agents. Raises ComposeError."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _READY_SECONDS
    found = 0
    while found < 2:
        if time.monotonic() > deadline:
            raise ComposeError(f"{found} of two agents came up within {_READY_SECONDS:.0f} s")
        with contextlib.suppress(KafkaException):  # nothing is listening yet
            found = len(admin.list_topics(timeout=5).brokers)
        admin.poll(0.2)
