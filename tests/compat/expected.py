"""Computes the lines that a program must read, scenario by scenario, from the workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.compat.feeding import Stored
from tests.compat.programs import Line, shortened
from tests.compat.workload import CODECS, FEEDS, INPUT_RECORDS, Record, Step, Workload, committed

#: The scenarios of a client, in order; tools and frameworks have others.
SCENARIOS = (
    "produce",
    "transactions",
    "holes",
    "holes_inside",
    "commit",
    "group",
    "eos",
    "legacy",
)
#: Those of rows that are secured: eos over SASL_SSL, by a mechanism each.
SECURED = ("scram", "oauthbearer")
INSIDE = ("middle", "mixed")


def expected(workload: Workload, codecs: Sequence[str] = CODECS) -> dict[str, Line]:
    """Return the expected line of each scenario except `holes_inside`, whose offsets depend on the cluster.

    For `legacy`, the line has only the feed `mixed`. `codecs` are the codecs that the client reports, in its order.
    """
    feeds = {name: _shown(committed(workload.feeds[name])) for name in (*FEEDS, "group")}
    found: dict[str, tuple[dict[str, dict[int, list[str]]], dict[str, Any]]] = {
        "produce": ({"produce": _produced(workload, codecs)}, {"codecs": list(codecs)}),
        "transactions": (
            {"transactions": _transacted(workload)},
            {"aborted": sum(not commit for commit, _ in workload.transactions)},
        ),
        "holes": ({name: feeds[name] for name in FEEDS}, {"at_end": sorted(FEEDS)}),
        "commit": ({"mixed": feeds["mixed"]}, {"lag": 0}),
        "group": ({"group": feeds["group"]}, {"assigned": [2, 2], "alone": 4}),
        "eos": ({"output": {0: _transformed()}}, {"committed": 0}),
        "legacy": ({"mixed": {0: _uncommitted(workload.feeds["mixed"])}}, {}),
    }
    found |= dict.fromkeys(SECURED, found["eos"])
    return {
        scenario: Line(scenario, ok=True, records=_by_partition(topics), facts=facts)
        for scenario, (topics, facts) in found.items()
    }


def inside(stored: dict[str, Stored]) -> Line:
    """Return the expected line of `holes_inside` on a cluster. `stored` is the result of our own reader, by feed."""
    records = {f"{name}/0": [shortened(line) for line in stored[name].firsts()] for name in INSIDE}
    return Line("holes_inside", ok=True, records=records)


def _shown(lines: dict[int, list[str]]) -> dict[int, list[str]]:
    return {partition: [shortened(line) for line in some] for partition, some in lines.items()}


def _by_partition(topics: dict[str, dict[int, list[str]]]) -> dict[str, list[str]]:
    return {
        f"{name}/{partition}": lines
        for name in sorted(topics)
        for partition, lines in sorted(topics[name].items())
    }


def _produced(workload: Workload, codecs: Sequence[str]) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for _ in codecs:
        for number, record in enumerate(workload.produce):
            lines.setdefault(number % 3, []).append(shortened(record.line))
    return lines


def _transacted(workload: Workload) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for commit, records in workload.transactions:
        for record in records if commit else ():
            lines.setdefault(record.partition, []).append(record.line)
    return lines


def _transformed() -> list[str]:
    return [Record(f"k{n}", f"I{n}").line for n in range(INPUT_RECORDS)]


def _uncommitted(steps: Iterable[Step]) -> list[str]:
    """Return the lines of all records, including aborted ones, without headers. Message sets have no transactions and
    no headers.
    """
    records = [record for step in steps for record in step.records]
    return [shortened(Record(record.key, record.value).line) for record in records]


def kept(line: Line) -> dict[str, Any]:
    """Return a line in the form in which expected.json stores it."""
    return {"records": line.records, "facts": line.facts}
