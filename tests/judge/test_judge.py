"""Tests the judge's workload on honest clusters, and through proxies that each lie in one way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from lacuna.base.client_security import PLAINTEXT
from lacuna.base.errors import UserError
from lacuna.cli.app import app
from lacuna.judge.actors import USUAL, Chances
from lacuna.judge.checker import judge
from lacuna.judge.client import Brokers
from lacuna.judge.history import FIND, SERIAL, SETTLE, TXN, History
from lacuna.judge.report import smallest
from lacuna.judge.workload import Plan, Workload
from lacuna.testing import Cluster, ProcessCluster
from tests.forked import LACUNA
from tests.golden.broker import kafka
from tests.judge.lying import LIES, Lie, Proxy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def observed(bootstrap: str, operations: int, seed: int = 1, chances: Chances = USUAL) -> History:
    """Run the workload, and return what it observed."""
    plan = Plan(
        seconds=300,
        name=f"judge-{seed}",
        visible_within=3,
        most_operations=operations,
        chances=chances,
    )
    workload = Workload(Brokers(bootstrap, PLAINTEXT), plan, random.Random(seed), print)
    with suppress(UserError):
        asyncio.run(workload.run())
    assert workload.is_whole
    return workload.history


@pytest.mark.slow
def test_an_honest_cluster_has_no_anomaly(cluster: Cluster) -> None:
    history = observed(cluster.bootstrap, 500)
    assert judge(history) == []
    assert {TXN, SERIAL, SETTLE, FIND} <= {each.kind for each in history}


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs Java and Maven"
)
def test_an_honest_kafka_has_no_anomaly(tmp_path: Path) -> None:
    with kafka(tmp_path, version="4.4.0") as bootstrap:
        history = observed(bootstrap, 400)
    assert judge(history) == []
    assert {TXN, SERIAL, SETTLE, FIND} <= {each.kind for each in history}


def through(bootstrap: str, lie: Lie, operations: int, seed: int = 1) -> History:
    """Run the workload through a proxy."""

    async def run() -> History:
        async with Proxy(bootstrap, lie) as address:
            return await asyncio.to_thread(observed, address, operations, seed, lie.chances)

    return asyncio.run(run())


@pytest.mark.slow
def test_an_honest_proxy_has_no_anomaly(cluster: Cluster) -> None:
    assert judge(through(cluster.bootstrap, Lie(), 400, seed=2)) == []


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_caught(cluster: Cluster, lie: type[Lie]) -> None:
    history = through(cluster.bootstrap, lie(), 400, seed=1000 + LIES.index(lie))
    found = judge(history)
    shown = [each for each in found if each.kind in lie.kinds]
    assert shown, {each.kind for each in found}
    small = smallest(history, shown[0])
    assert shown[0].key in {each.key for each in judge(small)}
    assert len(small) <= 4


def run(*arguments: str) -> tuple[int, str]:
    """Run the command. Return its exit code and standard output."""
    result = CliRunner().invoke(app, ["judge", *arguments])
    return result.exit_code, result.stdout


def test_the_exit_code_tells_the_verdict(tmp_path: Path) -> None:
    file, html = tmp_path / "history", tmp_path / "page.html"
    file.write_text("w txn 0-0.2-0.3 fail w#1 t/0+a@0\n")
    assert run("--read", str(file)) == (0, "no anomaly, in 1 operation\n")
    file.write_text("w txn 0-0.2-0.3 fail w#1 t/0+a@0\nr read 1-1.1 ok t/0[0,2)0:a\n")
    code, text = run("--read", str(file), "--html", str(html))
    assert code == 1
    assert text.startswith(
        "aborted read: a: its transaction was aborted, but read_committed returned it\n"
    )
    assert html.read_text().startswith("<!doctype html>")
    code, text = run("--read", str(file), "--json")
    assert code == 1
    assert [each["kind"] for each in json.loads(text)] == ["aborted read"]
    assert run("-b", "127.0.0.1:1", "--seconds", "1") == (2, "")
    file.write_text("nonsense")
    assert run("--read", str(file)) == (2, "")
    file.write_text("")
    assert run("--read", str(file)) == (2, "")
    assert run("-b", "127.0.0.1:1", "--heal", "true") == (2, "")


def test_a_page_that_cannot_be_written_changes_no_verdict(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text("w txn 0-0.2-0.3 fail w#1 t/0+a@0\n")
    result = CliRunner().invoke(app, ["judge", "--read", str(file), "--html", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, "no anomaly, in 1 operation\n")
    assert f"{tmp_path} could not be written: Is a directory" in result.stderr


@pytest.mark.parametrize("more", ["", "sasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n"])
def test_a_listener_that_wants_other_security_is_not_judged(
    cluster: Cluster, tmp_path: Path, more: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\n{more}")
    result = CliRunner().invoke(
        app, ["judge", "-b", cluster.bootstrap, "--command-config", str(file)]
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert "SASL failed" in result.stderr


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_cluster_that_is_killed_and_stopped_has_no_anomaly(tmp_path: Path) -> None:
    pid, history = tmp_path / "pid", tmp_path / "history"
    with ProcessCluster(tmp_path / "data") as first:
        up = [*LACUNA, "up", "--no-console", "--data", str(first.data), "--listen", first.bootstrap]
        again = f"{shlex.join(up)} >{tmp_path / 'log'} 2>&1 </dev/null & echo $! >{pid}"
        # A slow run reaches the first fault again, so each command uses the current process.
        pid.write_text(str(first.pid))
        faults = ["--fault", f"kill -9 $(cat {pid})", "--heal", again]
        faults += ["--fault", f"kill -STOP $(cat {pid})", "--heal", f"kill -CONT $(cat {pid})"]
        options = ["--seconds", "12", "--interval", "6", "--history", str(history)]
        try:
            code, text = run("-b", first.bootstrap, *options, *faults)
        finally:
            first.kill()
            with suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)
    assert (code, "no anomaly" in text) == (0, True), text
    assert " fault " in history.read_text()
