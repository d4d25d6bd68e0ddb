"""Tests the metrics table, the names of metrics elsewhere, and the files in deploy/ with a real Prometheus."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.observing import agent, control
from lacuna.testing.ports import lasting_ports
from tests.forked import ForkedCluster
from tests.lacuna import clients

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = runpy.run_path(str(DEPLOY / "grafana" / "draw.py"))
SECONDS = 90.0

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed"
)


def test_the_dashboard_is_up_to_date() -> None:
    """deploy/grafana/lacuna.json: run `python deploy/grafana/draw.py` after a change."""
    assert (DEPLOY / "grafana" / "lacuna.json").read_text(encoding="utf-8") == DASHBOARD["text"]()


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "lacuna.rules.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "lacuna.rules.test.yml"),
    ],
)
def test_rules_are_sound_and_fire(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_is_tested() -> None:
    names = re.findall(r"alert: (\w+)", (PROMETHEUS / "lacuna.rules.yml").read_text())
    tested = re.findall(r'alertname="(\w+)"', (PROMETHEUS / "lacuna.rules.test.yml").read_text())
    assert sorted(names) == tested


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[str]:
    """The URL of a Prometheus server that scrapes a cluster in which everything on the dashboard has occurred."""
    health, port = lasting_ports(2)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: lacuna, static_configs: [{{targets: ['127.0.0.1:{health}']}}]}}]\n"
    )
    with ForkedCluster(tmp_path / "data", [f"--health=127.0.0.1:{health}"]) as cluster:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            shop = clients.transactional(cluster.bootstrap, "shop")
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            for number in range(20):
                clients.transact(shop, "t", ["x"], commits=number % 2 == 1)
                if number % 4 == 1:
                    clients.consume(cluster.bootstrap, "t", 1 + number // 2)
                if number % 5 == 2:
                    assert admin.create_topics([NewTopic("t", 1)])["t"].exception() is not None
                if number == 10:
                    consumer = Consumer(
                        {"bootstrap.servers": cluster.bootstrap, "group.id": "tests"}
                    )
                    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
                    consumer.close()
                wait_for_a_scrape(f"http://127.0.0.1:{port}")
            _open_one = clients.opened(cluster.bootstrap, "open", "t", ["x"])
            wait_for_a_scrape(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def ask(url: str, query: str) -> list[Any]:
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': query})}", timeout=60) as answer:
        told = json.load(answer)
    assert told["status"] == "success", told
    found: list[Any] = told["data"]["result"]
    return found


def wait_for_a_scrape(url: str) -> None:
    """Wait until Prometheus has scraped the current state."""
    began, deadline = time.time(), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            if any(
                float(sample["value"][1]) > began
                for sample in ask(url, "timestamp(lacuna_agent_ready)")
            ):
                return
        except OSError:
            pass  # it is starting
        time.sleep(0.05)
    raise AssertionError("Prometheus has not scraped the cluster")


@needs_prometheus
@pytest.mark.slow
def test_each_query_of_the_dashboard_finds_something(scraped: str) -> None:
    empty = [
        query
        for query in DASHBOARD["queries"]()
        if not ask(scraped, query.replace("$__rate_interval", "1m"))
    ]
    assert empty == []


ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "lacuna.rules.yml"
DRAWING = ROOT / "deploy" / "grafana" / "draw.py"
METRICS = (*agent.METRICS, *control.METRICS)
NAME = re.compile(r"\b(?:lacuna|kafka)_[a-z_]+")
#: Expressions name labels in braces and after `by` and `on`. Grafana's and Prometheus's own belong to no metric.
LABELS = re.compile(r"(?:by|on) \(([^)]*)\)|\{([^{}]*)\}")
OF_PROMETHEUS = {"instance", "le"}


def test_the_page_of_metrics_is_up_to_date() -> None:
    """docs/metrics.md: run `python docs/draw_metrics.py` after a change."""
    page = ROOT / "docs" / "metrics.md"
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_metrics.py"))
    assert page.read_text(encoding="utf-8") == drawn["page"]()


def test_each_metric_has_one_row() -> None:
    names = [each.shown_name for each in METRICS]
    assert len(names) == len(set(names))
    assert all(NAME.fullmatch(each) for each in names)
    assert all(each.help_text.endswith(".") for each in METRICS)


def expressions() -> dict[str, list[str]]:
    """Return the expressions with which deploy/ queries Prometheus, by file."""
    alerts = re.findall(r"expr: (.*)", ALERTS.read_text(encoding="utf-8"))
    return {ALERTS.name: alerts, "lacuna.json": runpy.run_path(str(DRAWING))["queries"]()}


@pytest.mark.parametrize("file", [ALERTS.name, "lacuna.json"])
def test_what_is_asked_for_has_a_row(file: str) -> None:
    """Metrics and labels must exist, because a panel or an alert with a wrong name would remain empty."""
    rows = {each.shown_name: each for each in METRICS}
    rows |= {f"{name}_bucket": each for name, each in rows.items() if each.type == "histogram"}
    found = expressions()[file]
    assert found
    for expression in found:
        names = NAME.findall(expression)
        assert names, expression
        assert set(names) <= rows.keys(), expression
        lists = chain.from_iterable(LABELS.findall(expression))
        labels = set(re.findall(r"(\w+)(?:=|,|$)", ",".join(filter(None, lists))))
        known = set(chain.from_iterable(rows[name].labels for name in names))
        assert labels <= known | OF_PROMETHEUS, expression
