"""Writes the dashboard lacuna.json beside this file: `python deploy/grafana/draw.py`.

A test checks that the file is up to date and that each query finds what a running cluster shows.
"""

import json
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).with_name("lacuna.json")
_WIDTH: Final = 24
_PANELS_A_ROW: Final = 3
_HEIGHT: Final = 7
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}

#: row -> panel title -> (unit, queries by legend)
ROWS: Final[dict[str, dict[str, tuple[str, dict[str, str]]]]] = {
    "Clients": {
        "Bytes": (
            "Bps",
            {
                "in {{instance}}": "rate(lacuna_received_bytes_total[$__rate_interval])",
                "out {{instance}}": "rate(lacuna_sent_bytes_total[$__rate_interval])",
            },
        ),
        "Requests": (
            "reqps",
            {"{{api}}": "sum by (api) (rate(lacuna_requests_total[$__rate_interval]))"},
        ),
        "Errors in answers": (
            "ops",
            {
                "{{api}} {{error}}": "sum by (api, error) (rate(lacuna_request_errors_total[$__rate_interval]))"
            },
        ),
        "Produce, p50 and p99": (
            "s",
            {
                name: f"histogram_quantile({quantile}, sum by (le) (rate("
                'lacuna_request_duration_seconds_bucket{api="Produce"}[$__rate_interval])))'
                for name, quantile in (("p50", 0.5), ("p99", 0.99))
            },
        ),
        "EndTxn, p50 and p99": (
            "s",
            {
                name: f"histogram_quantile({quantile}, sum by (le) (rate("
                'lacuna_request_duration_seconds_bucket{api="EndTxn"}[$__rate_interval])))'
                for name, quantile in (("p50", 0.5), ("p99", 0.99))
            },
        ),
        "Connections": ("short", {"{{instance}}": "lacuna_connections"}),
    },
    "Transactions and readers": {
        "Oldest ongoing transaction": ("s", {"age": "max(lacuna_oldest_transaction_seconds)"}),
        "Offsets that wait for a transaction": (
            "short",
            {"{{topic}}-{{partition}}": "max by (topic, partition) (lacuna_lso_lag)"},
        ),
        "Transactional ids": (
            "short",
            {"{{state}}": "sum by (state) (lacuna_transactional_ids)"},
        ),
        "Lag of groups, offsets": (
            "short",
            {"{{consumergroup}}": "max by (consumergroup) (kafka_consumergroup_lag_sum)"},
        ),
        "Lag of groups, seconds": (
            "s",
            {"{{consumergroup}}": "max by (consumergroup) (kafka_consumergroup_max_lag_seconds)"},
        ),
        "Offsets given": (
            "ops",
            {"{{topic}}": "sum by (topic) (rate(lacuna_topic_offsets_total[$__rate_interval]))"},
        ),
    },
    "Object store": {
        "Requests": (
            "reqps",
            {
                "{{operation}}": "sum by (operation) (rate(lacuna_store_requests_total[$__rate_interval]))"
            },
        ),
        "Bytes": (
            "Bps",
            {
                "{{direction}}": "sum by (direction) (rate(lacuna_store_bytes_total[$__rate_interval]))"
            },
        ),
        "Dollars a day": (
            "currencyUSD",
            {"requests": "sum(rate(lacuna_store_cost_dollars_total[$__rate_interval])) * 86400"},
        ),
        "Flushes": (
            "ops",
            {
                "{{instance}}": "rate(lacuna_flushes_total[$__rate_interval])",
                "failed {{instance}}": "rate(lacuna_flushes_failed_total[$__rate_interval])",
            },
        ),
        "Bytes a flush": (
            "bytes",
            {
                "{{instance}}": "rate(lacuna_flushed_bytes_total[$__rate_interval]) / "
                "rate(lacuna_flushes_total[$__rate_interval])"
            },
        ),
        "Found in the cache": (
            "percentunit",
            {
                "{{instance}}": "sum by (instance) ("
                'rate(lacuna_cache_lookups_total{outcome="hit"}[$__rate_interval])) / '
                "sum by (instance) (rate(lacuna_cache_lookups_total[$__rate_interval]))"
            },
        ),
    },
    "Merges and compaction": {
        "Bytes left out": (
            "Bps",
            {
                "{{by}}": 'sum by (by) (rate(lacuna_rewritten_bytes_total{side="before"}[$__rate_interval])) - '
                'sum by (by) (rate(lacuna_rewritten_bytes_total{side="after"}[$__rate_interval]))'
            },
        ),
        "Aborted records left out": (
            "ops",
            {
                "{{by}}": "sum by (by) (rate(lacuna_reclaimed_aborted_offsets_total[$__rate_interval]))"
            },
        ),
        "Waiting": (
            "short",
            {
                "small extents": "max(lacuna_merge_waiting_extents)",
                "aborted offsets": "max(lacuna_merge_waiting_aborted_offsets)",
                "objects to delete": "max(lacuna_replaced_objects)",
            },
        ),
        "Merges": (
            "ops",
            {
                "{{instance}}": "rate(lacuna_merges_total[$__rate_interval])",
                "failed {{instance}}": "rate(lacuna_merges_failed_total[$__rate_interval])",
            },
        ),
        "Objects deleted": (
            "ops",
            {"objects": "sum(rate(lacuna_deleted_objects_total[$__rate_interval]))"},
        ),
        "Connections to the store": (
            "short",
            {
                "in use {{instance}}": "lacuna_store_connections_in_use",
                "kept at most {{instance}}": "lacuna_store_connections_limit",
            },
        ),
    },
    "Control plane": {
        "Leads": ("short", {"{{instance}}": "lacuna_controlplane_leader"}),
        "Journal": (
            "ops",
            {"records {{instance}}": "rate(lacuna_journal_records_total[$__rate_interval])"},
        ),
        "Waiting for the journal": (
            "short",
            {
                "commands {{instance}}": "lacuna_backlog_commands",
                "deliveries {{instance}}": "lacuna_deliveries_held",
            },
        ),
        "Index": (
            "short",
            {
                "extents": "max(lacuna_extents)",
                "dead ranges": "max(lacuna_dead_ranges)",
                "objects": "max(lacuna_objects)",
            },
        ),
        "Agents": (
            "short",
            {"with a lease": "max(lacuna_agents)", "hidden": "max(lacuna_agents_hidden)"},
        ),
        "Size of topics": ("bytes", {"{{topic}}": "max by (topic) (lacuna_topic_size_bytes)"}),
    },
}


def queries() -> list[str]:
    """The expressions of all panels."""
    return [
        query
        for panels in ROWS.values()
        for _, named in panels.values()
        for query in named.values()
    ]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row, titles in ROWS.items():
        panels.append(
            {
                "type": "row",
                "id": len(panels) + 1,
                "title": row,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1},
                "panels": [],
            }
        )
        y += 1
        width = _WIDTH // _PANELS_A_ROW
        for number, (title, (unit, named)) in enumerate(titles.items()):
            place = {
                "x": number % _PANELS_A_ROW * width,
                "y": y + number // _PANELS_A_ROW * _HEIGHT,
                "w": width,
                "h": _HEIGHT,
            }
            panels.append(_panel(len(panels) + 1, title, unit, named, place))
        y += -(-len(titles) // _PANELS_A_ROW) * _HEIGHT
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "Lacuna",
        "uid": "lacuna",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def _panel(
    number: int, title: str, unit: str, named: dict[str, str], place: dict[str, int]
) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "id": number,
        "title": title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (legend, query) in enumerate(named.items())
        ],
    }


def text() -> str:
    """The text of lacuna.json."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
