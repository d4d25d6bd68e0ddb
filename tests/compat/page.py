"""docs/clients.md, from the results."""

from __future__ import annotations

from typing import Any

from tests.compat.clients import ROOT
from tests.compat.expected import SCENARIOS
from tests.compat.verdicts import Outcome

PAGE = ROOT / "docs" / "clients.md"

_MARKS = {
    Outcome.SAME: "✓",
    Outcome.RIGHT: "✓",
    Outcome.AS_KAFKA: "as Kafka",
    Outcome.UNSUPPORTED: "–",
    Outcome.DIFFERS: "✗",
}
_WHAT = {
    "produce": "produces with each codec that it has, idempotent where it can be, and reads it back",
    "transactions": "commits and aborts transactions; read_committed gets the committed ones alone",
    "holes": "reads partitions whose start, middle, end or whole was aborted, with read_committed; its "
    "position reaches the end offset, so lag is 0",
    "holes_inside": "begins in the middle of such partitions, inside of holes too",
    "commit": "commits offsets, closes, goes on from them; lag is 0 over an aborted tail",
    "group": "two members share a topic's partitions; one leaves, the other gets all",
    "eos": "consume, transform, produce in transactions with the offsets in them; one is aborted and done again",
    "legacy": "speaks message sets (magic 0 and 1), as clients before 0.11 do",
}
_HEAD = """\
# Clients

What happens when a client that was written for Apache Kafka is pointed at Lacuna. Each program below did the same
things to Lacuna and to Apache Kafka, with the same records in both: transactions that interleave, aborted ones at the
start, in the middle and at the end of partitions, all codecs, large batches, null keys and values, headers. What it
read and what it was told must be the same on both; offsets apart, since Kafka's transaction markers take some and
Lacuna has none. `lacuna doctor --client NAME@VERSION` tells the same of the nearest version that was run.

Written by `python -m tests.compat.run`; [tests/compat](../tests/compat/README.md) has the programs and says how a
client is added.
"""


def page(made: dict[str, Any]) -> str:
    """The page's text. `made` is what lacuna/clients.json holds."""
    notes: list[str] = []
    clients = made["clients"]
    parts = [_HEAD, _made(made["made"]), _legend()]
    parts.append("## Clients\n\n" + _matrix(_ran(clients, "client"), notes))
    others = [one for kind in ("tool", "framework") for one in _ran(clients, kind)]
    if others:
        parts.append("## Tools and frameworks\n\n" + _others(others, notes))
    if notes:
        parts.append("## Notes\n\n" + "\n".join(notes) + "\n")
    if absent := [one for one in clients if "outcome" in one]:
        parts.append("## Not run\n\n" + _absent(absent))
    return "\n".join(parts)


def _made(made: dict[str, str]) -> str:
    return (
        f"Last run: {made['on']}, Lacuna {made['lacuna']} ({made['cluster']}) beside Apache Kafka "
        f"{made['kafka']} (one node).\n"
    )


def _legend() -> str:
    rows = "".join(f"| `{name}` | {_WHAT[name]} |\n" for name in SCENARIOS)
    return (
        "| scenario | what the client does |\n|---|---|\n"
        + rows
        + "\n✓ the same as on Kafka. **as Kafka**: the same as on Kafka, where it fails too. – the client has no such"
        " thing. **✗** another outcome than on Kafka. Small numbers are notes below; "
        "a ✓ with one is right here and not on Kafka.\n"
    )


def _ran(clients: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in clients if one["kind"] == kind and "cells" in one]


def _matrix(clients: list[dict[str, Any]], notes: list[str]) -> str:
    head = ["client", "version", "language", *(f"`{name}`" for name in SCENARIOS), "beside Kafka"]
    lines = [_line(head), _line(["---"] * len(head))]
    for one in clients:
        cells = [_cell(one["cells"].get(name), notes) for name in SCENARIOS]
        name = one["name"] + _note(one.get("notes", ""), notes)
        lines.append(_line([name, one["version"], one["language"], *cells, one["kafka"]]))
    return "\n".join(lines) + "\n"


def _others(clients: list[dict[str, Any]], notes: list[str]) -> str:
    lines = [_line(["what", "version", "beside Kafka", "scenarios"]), _line(["---"] * 4)]
    for one in clients:
        said = ", ".join(f"{name} {_cell(cell, notes)}" for name, cell in one["cells"].items())
        name = one["name"] + _note(one.get("notes", ""), notes)
        lines.append(_line([name, one["version"], one["kafka"], said]))
    return "\n".join(lines) + "\n"


def _absent(clients: list[dict[str, Any]]) -> str:
    rows = [_line(["what", "version", "why"]), _line(["---"] * 3)]
    rows += [
        _line([one["name"], one["version"], f"{one['outcome']}: {one['what']}"]) for one in clients
    ]
    return "\n".join(rows) + "\n"


def _cell(cell: dict[str, str] | None, notes: list[str]) -> str:
    if cell is None:
        return ""
    mark = _MARKS[Outcome(cell["outcome"])]
    return mark + _note(cell.get("what", ""), notes)


def _note(text: str, notes: list[str]) -> str:
    """The number of a note; the same text is one note."""
    if not text:
        return ""
    said = text.replace("|", "\\|").replace("<", "&lt;")
    found = [number for number, note in enumerate(notes, 1) if note == f"{number}. {said}"]
    if not found:
        notes.append(f"{len(notes) + 1}. {said}")
        found = [len(notes)]
    return f" <sup>{found[0]}</sup>"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
