"""Generates docs/clients.md from the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.compat.clients import ROOT
from tests.compat.expected import SCENARIOS, SECURED
from tests.compat.verdicts import Outcome

PAGE = ROOT / "docs" / "clients.md"
_COLUMNS = (*SCENARIOS, *SECURED)

_MARKS = {
    Outcome.SAME: "✓",
    Outcome.RIGHT: "✓",
    Outcome.AS_KAFKA: "as Kafka",
    Outcome.UNSUPPORTED: "–",
    Outcome.DIFFERS: "✗",
}
_WHAT = {
    "produce": "produces with each of its codecs, idempotently if it can, and reads the records back",
    "transactions": "commits and aborts transactions; read_committed returns only the committed ones",
    "holes": "reads partitions that were aborted at the start, in the middle, at the end or entirely, with "
    "read_committed; its position reaches the end offset, so lag is 0",
    "holes_inside": "starts in the middle of such partitions, including inside holes",
    "commit": "commits offsets, closes, and continues from them; lag is 0 after an aborted tail",
    "group": "two members share a topic's partitions; one leaves, and the other receives all of them",
    "eos": "consumes, transforms and produces in transactions that include the offsets; one transaction is "
    "aborted and repeated",
    "legacy": "uses message sets (magic 0 and 1), as clients before 0.11 do",
    "scram": "`eos` over TLS, with a password (SASL_SSL, SCRAM-SHA-512)",
    "oauthbearer": "`eos` over TLS, with a token from an identity provider (SASL_SSL, OAUTHBEARER)",
}
_, _PROSE = Path(__file__).with_name("page.md").read_text().split(" -->\n\n", 1)
#: What stands before the tables, and what stands after them.
_HEAD, _BEHAVIOUR = _PROSE.split("<!-- tables -->\n\n")


def page(made: dict[str, Any]) -> str:
    """Return the text of the page. `made` is the content of lacuna/operating/clients.json."""
    notes: list[str] = []
    clients = made["clients"]
    parts = [_HEAD, _made(made["made"]), _legend()]
    parts.append("## Clients\n\n" + _matrix(_ran(clients, "client"), notes))
    others = [one for kind in ("tool", "framework") for one in _ran(clients, kind)]
    if others:
        parts.append("## Tools and frameworks\n\n" + _others(others, notes))
    parts.append(_BEHAVIOUR)
    if notes:
        parts.append("## Notes\n\n" + "\n".join(notes) + "\n")
    if absent := [one for one in clients if "outcome" in one]:
        parts.append("## Not run\n\n" + _absent(absent))
    return "\n".join(parts)


def _made(made: dict[str, str]) -> str:
    return (
        f"Last run: {made['on']}, Lacuna {made['lacuna']} ({made['cluster']}), compared with Apache Kafka "
        f"{made['kafka']} (one node).\n"
    )


def _legend() -> str:
    rows = "".join(f"| `{name}` | {_WHAT[name]} |\n" for name in _COLUMNS)
    return (
        "| scenario | the client |\n|---|---|\n"
        + rows
        + "\n✓ the same as on Kafka. **as Kafka**: fails, as it does on Kafka. – the client lacks this"
        " feature. **✗** an outcome that differs from Kafka's. Small numbers refer to the notes below. "
        "A ✓ with a note is correct on Lacuna but not on Kafka. Empty cells were not run.\n"
    )


def _ran(clients: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in clients if one["kind"] == kind and "cells" in one]


def _matrix(clients: list[dict[str, Any]], notes: list[str]) -> str:
    head = [
        "client",
        "version",
        "language",
        *(f"`{name}`" for name in _COLUMNS),
        "compared with Kafka",
    ]
    lines = [_line(head), _line(["---"] * len(head))]
    for one in clients:
        cells = [_cell(one["cells"].get(name), notes) for name in _COLUMNS]
        name = one["name"] + _note(one.get("notes", ""), notes)
        lines.append(_line([name, one["version"], one["language"], *cells, one["kafka"]]))
    return "\n".join(lines) + "\n"


def _others(clients: list[dict[str, Any]], notes: list[str]) -> str:
    lines = [_line(["what", "version", "compared with Kafka", "scenarios"]), _line(["---"] * 4)]
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
    """Return a superscript reference to a note, or "" without text. Adds the note to `notes` if it is new."""
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
