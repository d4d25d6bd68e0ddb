"""Runs one row: creates its topics on each cluster, runs its program on both concurrently, and compares the results."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat import programs, workload
from tests.compat.captured import captured
from tests.compat.clients import Row
from tests.compat.clusters import Address, fetch
from tests.compat.expected import INSIDE, SECURED, inside
from tests.compat.feeding import stored, topics
from tests.compat.security import Security
from tests.compat.verdicts import Outcome, Side, Verdict, compare, judge, scenarios, wanted


@dataclass(frozen=True, slots=True)
class Bench:
    """The clusters on which rows run, or None for an omitted one.

    With `is_captured`, Lacuna is compared with what the programs once printed on Kafka. `security` belongs to their
    secured listeners. Without it, scenarios over SASL_SSL are skipped.
    """

    kafka: Callable[[str], Address] | None
    lacuna: Address | None
    logs: Path
    security: Security | None = None
    is_captured: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a row: a verdict for each scenario (`cells`), or one for the whole row."""

    row: Row
    cells: dict[str, Verdict] = field(default_factory=dict)
    whole: Verdict | None = None
    sides: tuple[Side, ...] = ()
    prefix: str = ""

    @property
    def failed(self) -> list[str]:
        """The scenarios that differ from Kafka, or "not built" if the build failed."""
        if self.whole is not None:
            return [self.whole.outcome] if self.whole.outcome == Outcome.NOT_BUILT else []
        return [name for name, cell in self.cells.items() if cell.outcome == Outcome.DIFFERS]


def run_row(row: Row, bench: Bench) -> Result:
    """Build and run a row. Raises KafkaException or RuntimeError if a cluster's topics cannot be filled."""
    return prepare(row) or run_built(row, bench)


def prepare(row: Row) -> Result | None:
    """Build a row. Return its result if it cannot run, else None."""
    if row.not_run:
        return Result(row, whole=Verdict(Outcome.NOT_RUN, row.not_run))
    if row.missing:
        return Result(row, whole=Verdict(Outcome.NOT_RUN, f"no {', '.join(row.missing)}"))
    if row.needs_jars:
        fetch(row.kafka)
    try:
        programs.build(row)
    except programs.BuildError as error:
        return Result(row, whole=Verdict(Outcome.NOT_BUILT, str(error)))
    return None


def run_built(row: Row, bench: Bench) -> Result:
    """Run a built row.

    Raises KafkaException or RuntimeError if a cluster's topics cannot be filled, and CaptureError without a capture.
    """
    load = workload.make(row.codecs)
    prefix = re.sub(r"[^a-zA-Z0-9]+", "-", f"{row.name}-{row.version}-{uuid.uuid4().hex[:4]}")
    file = bench.logs / f"{prefix}.json"
    file.write_text(json.dumps(load.json))

    addresses = {"kafka": bench.kafka(row.kafka)} if bench.kafka else {}
    addresses |= {"lacuna": bench.lacuna} if bench.lacuna else {}
    secured: tuple[str, ...] = ()
    if row.secured and bench.security and all(each.secured for each in addresses.values()):
        secured = SECURED

    def side(name: str, address: Address) -> Side:
        logs = bench.logs / name
        logs.mkdir(exist_ok=True)
        environment: dict[str, str] = {}
        if secured and bench.security:
            environment = {"COMPAT_SECURED": address.secured, **bench.security.environment}
        bootstrap = address.bootstrap
        with topics(bootstrap, prefix, load, secured):
            ran = programs.run(row, bootstrap, file, prefix, logs, environment)
            found = {feed: stored(bootstrap, f"{prefix}-{feed}") for feed in INSIDE}
        return Side(ran, wanted(load, ran, inside(found)))

    sides = [captured(row, prefix)] if bench.is_captured else []
    with ThreadPoolExecutor(2) as pool:
        sides += pool.map(side, addresses, addresses.values())
    return Result(row, _cells(row, sides, secured), sides=tuple(sides), prefix=prefix)


def _cells(row: Row, sides: list[Side], secured: tuple[str, ...]) -> dict[str, Verdict]:
    names = [*scenarios(row, *(side.ran for side in sides)), *secured]
    if len(sides) == 2:
        return {name: compare(name, *sides) for name in names}
    (side,) = sides
    return {name: judge(side.line(name), side.wanted.get(name)) for name in names}
