"""The judge's workload on honest clusters, and through proxies that lie in one way each."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lacuna.base.client_security import PLAINTEXT
from lacuna.cli.app import app
from lacuna.judge.checker import judge
from lacuna.judge.client import Brokers
from lacuna.judge.history import SERIAL, SETTLE, TXN, History
from lacuna.judge.workload import Plan, Workload
from lacuna.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def observed(bootstrap: str, seconds: float, seed: int = 1, name: str = "judge") -> History:
    """Run the workload, and return what it observed."""
    plan = Plan(seconds=seconds, name=name)
    workload = Workload(Brokers(bootstrap, PLAINTEXT), plan, random.Random(seed), print)
    asyncio.run(workload.run())
    return workload.history


def test_an_honest_cluster_has_no_anomaly(cluster: Cluster) -> None:
    history = observed(cluster.bootstrap, 1.5)
    assert judge(history) == []
    assert {TXN, SERIAL, SETTLE} <= {each.kind for each in history}


def run(*arguments: str) -> tuple[int, str]:
    """Run the command. Return its exit code and its standard output."""
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
        "aborted read: a: its transaction was aborted, and read_committed returned it\n"
    )
    assert html.read_text().startswith("<!doctype html>")
    code, text = run("--read", str(file), "--json")
    assert code == 1
    assert [each["kind"] for each in json.loads(text)] == ["aborted read"]
    assert run("-b", "127.0.0.1:1", "--seconds", "1") == (2, "")
    file.write_text("nonsense")
    assert run("--read", str(file)) == (2, "")
