"""Tests that no secret appears in a run's logs, output, metrics, answers, journal, objects or arguments."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports
    AdminClient,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lacuna.base.client_security import ClientSecurity
from lacuna.base.sasl import Credentials, plain
from lacuna.operating.kafka import Agents, KafkaConnection, NotAuthenticated
from lacuna.testing.ports import lasting_ports

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command

READY = "bootstrap: "
SECONDS = 60.0


@contextmanager
def running(log: Path, *arguments: str, **environment: str) -> Iterator[tuple[int, str]]:
    """Run `lacuna up` with all its output in `log`. Yield its process id and bootstrap address."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "lacuna", "up", "--verbose", *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(READY), log.read_text()
            yield process.pid, line.removeprefix(READY).strip()
        finally:
            process.terminate()
            said, _ = process.communicate(timeout=SECONDS)
            log.write_bytes(log.read_bytes() + said.encode())


def client(bootstrap: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": "0",
    }


async def connect(bootstrap: str, credentials: Credentials) -> None:
    security = ClientSecurity(protocol="SASL_PLAINTEXT", credentials=credentials)
    async with KafkaConnection(Agents(bootstrap, security), SECONDS):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_that_a_run_writes_has_a_secret(tmp_path: Path, log_format: str) -> None:
    of_file, of_environment, of_wrong, of_new = (secrets.token_hex(12) for _ in range(4))
    (tmp_path / "password").write_text(of_file)
    users = 'admin = "file:%s"\nother = "env:OTHER_PASSWORD"\n' % (tmp_path / "password")
    (tmp_path / "users.toml").write_text(users)
    health = f"127.0.0.1:{lasting_ports(1)[0]}"
    arguments = (
        f"--data={tmp_path / 'data'}",
        "--listen=SASL_PLAINTEXT://127.0.0.1:0",
        "--no-console",
        f"--users-file={tmp_path / 'users.toml'}",
        "--set=sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"--health={health}",
        f"--log-format={log_format}",
    )
    shown = []
    log = tmp_path / "log"
    with running(log, *arguments, OTHER_PASSWORD=of_environment) as (pid, bootstrap):
        shown.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        admin = AdminClient(client(bootstrap, "admin", of_file))
        new = UserScramCredentialUpsertion(
            "new", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), of_new.encode()
        )
        admin.alter_user_scram_credentials([new])["new"].result(SECONDS)
        for user, password in (("other", of_environment), ("new", of_new)):
            producer = Producer(client(bootstrap, user, password))
            producer.produce("t", b"x")
            assert producer.flush(SECONDS) == 0
        with pytest.raises(NotAuthenticated):
            asyncio.run(connect(bootstrap, plain("admin", of_wrong)))
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        configs = admin.describe_configs([broker])[broker].result(SECONDS)
        shown += [str(each.value).encode() for each in configs.values()]
        described: Any = admin.describe_user_scram_credentials(["new"])
        shown.append(repr(described["new"].result(SECONDS)).encode())
        with urllib.request.urlopen(f"http://{health}/metrics", timeout=SECONDS) as metrics:
            shown.append(metrics.read())
    assert b"authentication by PLAIN failed" in log.read_bytes()
    shown.append(log.read_bytes())
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    shown += [path.read_bytes() for path in files]
    for secret in (of_file, of_environment, of_wrong, of_new):
        assert not [each[:200] for each in shown if secret.encode() in each]


@pytest.mark.parametrize(
    "reference", ["s3cret-text", "vault:x", "file:/no/such/file", "env:NOT_SET"]
)
def test_a_reference_that_cannot_be_read_is_refused_without_showing_a_secret(
    tmp_path: Path, reference: str, lacuna: Command
) -> None:
    (tmp_path / "users.toml").write_text(f'admin = "{reference}"\n')
    arguments = ["--listen=SASL_PLAINTEXT://127.0.0.1:0", f"--users-file={tmp_path / 'users.toml'}"]
    ended = lacuna("up", f"--data={tmp_path / 'data'}", *arguments)
    assert ended.code == 1
    assert "password of admin" in ended.err
    assert "s3cret-text" not in ended.out + ended.err
