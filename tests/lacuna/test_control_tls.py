"""Tests control planes, agents and commands as processes that authenticate each other by certificate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tests.certificates import Authority, Certificate
from tests.clients.librd import eventually
from tests.forked import start_process
from tests.lacuna.test_controlplane_and_agents import running

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


def options(own: Certificate, authority: Authority) -> tuple[str, ...]:
    return (
        f"--control-tls-cert={own.certificate}",
        f"--control-tls-key={own.key}",
        f"--control-tls-ca={authority.path}",
    )


def test_a_cluster_with_certificates(
    tmp_path: Path, clients: SimpleNamespace, lacuna: Command, refused: Refusal
) -> None:
    authority = Authority(tmp_path)
    plane, agent, job = (authority.issue(name) for name in ("plane", "agent", "job"))
    principals = "--set=controlplane.cluster.principals=User:CN=plane,O=tests;User:CN=agent,O=tests"
    data = ("--listen=127.0.0.1:0", f"--data={tmp_path}/data", principals)
    with running("control plane: ", "controlplane", *data, *options(plane, authority)) as control:
        named = (f"--control={control}", f"--objects={tmp_path}/objects", principals)
        listening = ("--listen", "127.0.0.1:0", "--workers", "2")
        with running(
            "bootstrap: ", "agent", *listening, *named, *options(agent, authority)
        ) as bootstrap:
            clients.send(clients.plain(bootstrap), "t", ["x"])
            own = options(job, authority)
            rows = lacuna("explain", "t", "--control", control, *own).rows
            assert [row[2] for row in rows[1:]] == ["delivered"]
            status = lacuna("controlplane", "status", "--control", control, *own)
            assert f"leader {control}" in status.out
            variables = {
                "LACUNA_CONTROLPLANE_SSL_CERTIFICATE_LOCATION": job.certificate,
                "LACUNA_CONTROLPLANE_SSL_KEY_LOCATION": job.key,
                "LACUNA_CONTROLPLANE_SSL_CA_LOCATION": authority.path,
            }
            assert lacuna("explain", "t", "--control", control, **variables).code == 0
            said = refused("explain", "t", "--control", control)
            assert said.startswith(f"no control plane at {control}")
            stranger = Authority(tmp_path, "other").issue("stranger")
            assert "no control plane" in refused(
                "explain", "t", "--control", control, *options(stranger, authority)
            )


def test_acls_decide_for_jobs(
    tmp_path: Path, clients: SimpleNamespace, lacuna: Command, refused: Refusal
) -> None:
    """A job sees, reads and compacts a topic once ACLs allow it. Until then, the error names the missing right."""
    authority = Authority(tmp_path)
    agent, job = authority.issue("agent"), authority.issue("job")
    principals = "--set=controlplane.cluster.principals=User:CN=agent,O=tests"
    rights = (principals, "--authorizer", "--super-user=User:ANONYMOUS")
    own = options(agent, authority)
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={tmp_path}/data", *rights, *own)
    with running("control plane: ", *plane) as control:
        store = f"--objects={tmp_path}/objects"
        listening = ("agent", "--listen=127.0.0.1:0", f"--control={control}", store, *rights)
        with running("bootstrap: ", *listening, *own) as bootstrap:
            clients.send(clients.plain(bootstrap), "t", ["x"])
            named = (f"--control={control}", *options(job, authority))
            explain = ("explain", "t", *named)
            bucket = f"--store=file://{tmp_path}/objects"
            verify = ("verify", "--no-spark", "--topic=t", bucket, *named)
            compact = ("compact", "--topic=t", bucket, *named)

            def allow(operation: str) -> None:
                whom = ("--allow-principal", "User:CN=job,O=tests", "--operation", operation)
                added = lacuna("acls", "add", *whom, "--topic", "t", "-b", bootstrap)
                assert added.code == 0, added

            for command in (explain, verify, compact):
                said = lacuna(*command).err
                assert "User:CN=job,O=tests may " in said
                assert "`lacuna acls add" in said
            assert "no topic 't' that User:CN=job,O=tests may describe" in refused(*explain)
            allow("Describe")
            for command in (explain, verify, compact):
                assert "User:CN=job,O=tests may not READ" in lacuna(*command).err
            allow("Read")
            assert [row[2] for row in lacuna(*explain).rows[1:]] == ["delivered"]
            assert lacuna(*verify).code == 0
            assert "User:CN=job,O=tests may not ALTER topic t" in lacuna(*compact).err
            allow("Alter")
            assert lacuna(*compact).code == 0


def test_an_authorizer_that_nobody_is_asked_of_does_not_start(
    tmp_path: Path, refused: Refusal
) -> None:
    authority = Authority(tmp_path)
    own = options(authority.issue("own"), authority)
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={tmp_path}/data")
    rights = ("--authorizer", "--super-user=User:CN=admin")
    assert "--control-tls-ca" in refused(*plane, *rights)
    assert "controlplane.cluster.principals" in refused(*plane, *rights, *own)
    assert "--super-user User:NAME" in refused(*plane, "--authorizer", *own)
    assert "add --authorizer" in refused(*plane, "--super-user=User:admin", *own)


def test_a_standby_asks_the_leader_with_its_certificate(
    tmp_path: Path, bucket_url: str, lacuna: Command
) -> None:
    authority = Authority(tmp_path)
    plane, job = authority.issue("plane"), authority.issue("job")
    planes = (
        *("controlplane", "--listen=127.0.0.1:0", "--journal=bucket", f"--store={bucket_url}"),
        "--set=controlplane.cluster.principals=User:CN=plane,O=tests",
    )
    own = options(job, authority)
    with (
        running("control plane: ", *planes, *options(plane, authority)) as leader,
        running("control plane: ", *planes, *options(plane, authority)) as standby,
    ):

        def status(control: str) -> list[str]:
            out = lacuna("controlplane", "status", "--control", control, *own).out
            return [line.partition(" ")[2].partition(" ")[0] for line in out.splitlines()]

        eventually(lambda: standby in status(leader)[3:], True)
        assert status(standby)[0] == leader


def test_a_control_plane_that_others_reach_warns(tmp_path: Path) -> None:
    process = start_process(
        [
            *(sys.executable, "-m", "lacuna", "controlplane", "--listen", "0.0.0.0:0"),
            *("--data", str(tmp_path / "data")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "accepts every client that can connect to it" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
