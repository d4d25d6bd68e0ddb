"""Stores the results of each client in lacuna/operating/clients.json. Each run replaces the rows that it ran."""

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
    """Return the results in the repository."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {"clients": []}


def keep_expected(results: Iterable[Result]) -> None:
    """Write the reference client's lines on Kafka to expected.json, if the results contain them."""
    for result in results:
        if result.row.name == REFERENCE and result.row.quick and result.sides:
            lines = result.sides[0].ran.lines.values()
            said = {line.scenario: kept_line(line) for line in lines if is_expected(line)}
            EXPECTED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def is_expected(line: Line) -> bool:
    """Return whether expected.json stores a line. It omits holes_inside, whose offsets depend on the cluster, and a
    repeated eos.
    """
    return line.ok and line.scenario not in (INSIDE_HOLES, *SECURED)


def keep(results: Iterable[Result], known: Iterable[Row], shape: str) -> None:
    """Merge results into clients.json and rewrite the page. Drops rows that clients.toml does not contain.

    A row that cannot run here because of a missing program keeps its earlier result. Two runs may call this
    concurrently.
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
    """Return a result in the form in which clients.json stores it."""
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
