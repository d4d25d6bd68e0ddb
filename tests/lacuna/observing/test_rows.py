"""Tests the rows of metrics, and other places that name metrics: the page, the alerts, the dashboard."""

import re
import runpy
from itertools import chain
from pathlib import Path

import pytest

from lacuna.observing import agent, control

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "lacuna.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "draw.py"
METRICS = (*agent.METRICS, *control.METRICS)
NAME = re.compile(r"\b(?:lacuna|kafka)_[a-z_]+")
#: An expression names labels in braces and after `by` and `on`; Grafana's own and Prometheus' labels are no metric's.
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
    """Return what deploy/ queries from Prometheus, by file."""
    alerts = re.findall(r"expr: (.*)", ALERTS.read_text(encoding="utf-8"))
    return {ALERTS.name: alerts, "lacuna.json": runpy.run_path(str(DASHBOARD))["queries"]()}


@pytest.mark.parametrize("file", [ALERTS.name, "lacuna.json"])
def test_what_is_asked_for_has_a_row(file: str) -> None:
    """Metrics and labels must exist, because a panel or an alert with a wrong name would stay empty."""
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
