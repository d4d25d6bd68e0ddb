"""The results of each client, kept in lacuna/operating/clients.json; each run replaces the rows that it ran."""

from __future__ import annotations

import datetime
import fcntl
import importlib.metadata
import json
from collections.abc import Iterable
from typing import Any

from tests.compat.clients import HERE, KAFKAS, ROOT, Row
from tests.compat.expected import SECURED
from tests.compat.expected import kept as kept_line
from tests.compat.page import PAGE, page
from tests.compat.programs import Line
from tests.compat.running import Result
from tests.compat.verdicts import INSIDE_HOLES

EXPECTED = HERE / "expected.json"
#: The client whose lines from Kafka are kept in expected.json, in its quick version.
REFERENCE = "librdkafka"
KEPT = ROOT / "lacuna" / "operating" / "clients.json"


def kept() -> dict[str, Any]:
    """The results in the repository."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {"clients": []}


def keep_expected(results: Iterable[Result]) -> None:
    """Writes what the reference client read from Kafka to expected.json, if it is among the results."""
    for result in results:
        if result.row.name == REFERENCE and result.row.quick and result.sides:
            lines = result.sides[0].ran.lines.values()
            said = {line.scenario: kept_line(line) for line in lines if is_expected(line)}
            EXPECTED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def is_expected(line: Line) -> bool:
    """Whether to keep a line in expected.json: not holes_inside, whose offsets depend on the cluster, nor eos again."""
    return line.ok and line.scenario not in (INSIDE_HOLES, *SECURED)


def keep(results: Iterable[Result], known: Iterable[Row], shape: str) -> None:
    """Merges results into clients.json and rewrites the page; drops rows that no client.toml has any more.

    A row that cannot run here, since what it needs is not installed, keeps what an earlier run found. Two runs may do
    so at once.
    """
    order = [row.title for row in known]
    with (ROOT / "tests" / "compat" / "README.md").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = {f"{one['name']}@{one['version']}": one for one in kept()["clients"]}
        found |= {
            result.row.title: entry(result)
            for result in results
            if not (result.row.missing and result.row.title in found)
        }
        clients = [found[title] for title in order if title in found]
        made = {"made": _made(shape), "clients": clients}
        KEPT.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(page(made))


def entry(result: Result) -> dict[str, Any]:
    """A result in the form in which clients.json keeps it."""
    row = result.row
    made: dict[str, Any] = {
        "name": row.name,
        "version": row.version,
        "language": row.language,
        "kind": row.kind,
        "kafka": row.kafka,
    }
    if result.whole is not None:
        made |= {"outcome": str(result.whole.outcome), "what": result.whole.what}
    else:
        made["cells"] = {
            name: {"outcome": str(cell.outcome), **({"what": cell.what} if cell.what else {})}
            for name, cell in result.cells.items()
        }
    return made | {name: text for name, text in _texts(row) if text}


def _texts(row: Row) -> tuple[tuple[str, object], ...]:
    return ("notes", row.notes), ("advice", row.advice), ("also", list(row.also))


def _made(shape: str) -> dict[str, str]:
    return {
        "on": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "lacuna": importlib.metadata.version("lacuna-log"),
        "cluster": shape,
        "kafka": ", ".join(KAFKAS.values()),
    }
