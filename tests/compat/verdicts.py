"""Compares a program's output on both clusters to decide whether the client notices a difference from Kafka."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.compat.clients import Row
from tests.compat.expected import SCENARIOS, expected
from tests.compat.programs import Line, Ran
from tests.compat.workload import Workload

LEGACY, INSIDE_HOLES = "legacy", "holes_inside"
_MAX_WHAT = 300
#: Keys of control records: version 0, and type 0 (abort) or 1 (commit).
_CONTROL_KEYS = ("\0\0\0\0=", "\0\0\0\1=")


class Outcome(StrEnum):
    """The outcome in one cell of the matrix."""

    SAME = "same"
    RIGHT = "right"
    AS_KAFKA = "as Kafka"
    UNSUPPORTED = "unsupported"
    DIFFERS = "differs"
    NOT_RUN = "not run"
    NOT_BUILT = "not built"


_WORSE = (Outcome.SAME, Outcome.RIGHT, Outcome.AS_KAFKA, Outcome.DIFFERS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and an explanation if it needs one."""

    outcome: Outcome
    what: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One run on one cluster, with the lines that it should print there."""

    ran: Ran
    wanted: Mapping[str, Line]

    def says(self, scenario: str) -> bool:
        """Return whether the program printed anything about a scenario. If not, it stopped before it."""
        return scenario in self.ran.lines

    def line(self, scenario: str) -> Line:
        """Return the line about a scenario without control records, or an error line if there is none."""
        silence = f"no answer ({self.ran.ended or 'the program ended without one'})"
        line = self.ran.lines.get(scenario) or Line(scenario, ok=False, error=silence)
        line = without_control_records(line)
        return without_repetitions(line) if scenario == "group" else line


def without_repetitions(line: Line) -> Line:
    """Remove repeated records, which may appear after a rebalance."""
    records = {name: list(dict.fromkeys(lines)) for name, lines in line.records.items()}
    return dataclasses.replace(line, records=records)


def without_control_records(line: Line) -> Line:
    """Remove control records, which old clients return as messages.

    Kafka's follow each transaction and ours fill holes, so they cannot be compared.
    """
    records = {
        name: [record for record in lines if not record.startswith(_CONTROL_KEYS)]
        for name, lines in line.records.items()
    }
    return dataclasses.replace(line, records={name: some for name, some in records.items() if some})


def wanted(workload: Workload, ran: Ran, inside: Line) -> dict[str, Line]:
    """Return the lines that a program should print, given the codecs that it reports."""
    produced = ran.lines.get("produce")
    codecs = produced.facts.get("codecs") if produced else None
    lines = expected(workload, codecs) if isinstance(codecs, list) else expected(workload)
    return {**lines, "holes_inside": inside}


def scenarios(row: Row, *runs: Ran) -> list[str]:
    """Return the scenarios of a row: those of the contract for a client, and the printed ones for a tool."""
    if row.kind == "client":
        return list(SCENARIOS)
    return list(dict.fromkeys(name for ran in runs for name in ran.lines))


def compare(scenario: str, kafka: Side, lacuna: Side) -> Verdict:
    """Compare one scenario on both clusters."""
    there, here = kafka.line(scenario), lacuna.line(scenario)
    if there.unsupported and here.unsupported:
        return Verdict(Outcome.UNSUPPORTED, here.unsupported)
    if here.unsupported and not kafka.says(scenario):
        return Verdict(Outcome.UNSUPPORTED, here.unsupported)
    if not kafka.says(scenario) and not lacuna.says(scenario):
        return Verdict(Outcome.DIFFERS, _cut(f"on neither cluster: {there.error}"))
    if not there.ok and not here.ok and not there.unsupported and not here.unsupported:
        return Verdict(Outcome.AS_KAFKA, _cut(f"error: {there.error}"))
    if not here.ok or there.unsupported:
        return Verdict(Outcome.DIFFERS, _cut(f"{_state(here)}; on Kafka: {_state(there)}"))
    if not there.ok:
        return _compare_with_error(scenario, there, lacuna)
    return _compare_lines(scenario, kafka, lacuna)


def _compare_with_error(scenario: str, there: Line, lacuna: Side) -> Verdict:
    """Return the verdict on a scenario that fails on Kafka, by comparing Lacuna with the workload."""
    should = lacuna.wanted.get(scenario)
    wrong = difference(lacuna.line(scenario), should) if should else "nobody knows what is right"
    said = f"on Kafka: error: {there.error}"
    if wrong:
        return Verdict(Outcome.DIFFERS, _cut(f"{wrong}; {said}"))
    return Verdict(Outcome.RIGHT, _cut(f"correct on Lacuna; {said}"))


def _compare_lines(scenario: str, kafka: Side, lacuna: Side) -> Verdict:
    """Compare the records of each partition and each fact. Return the worst verdict."""
    there, here = aspects(kafka.line(scenario)), aspects(lacuna.line(scenario))
    want_there = aspects(kafka.wanted.get(scenario))
    want_here = aspects(lacuna.wanted.get(scenario))
    found = Verdict(Outcome.SAME)
    for name in sorted({*here, *there, *want_here}):
        got, other = here.get(name), there.get(name)
        # If the workload says something about a line, names that it does not mention there must be empty.
        wanted, wanted_there = want_here.get(name), want_there.get(name)
        is_known = scenario in lacuna.wanted and (scenario != LEGACY or name in want_here)
        if not is_known:
            verdict = Verdict(Outcome.SAME if got == other else Outcome.DIFFERS, _what(got, other))
        elif got == wanted:
            same = other == wanted_there
            what = f"{name} is correct on Lacuna; on Kafka: {_what(other, wanted_there)}"
            verdict = Verdict(Outcome.SAME) if same else Verdict(Outcome.RIGHT, what)
        elif got == other or (scenario == INSIDE_HOLES and other != wanted_there):
            # holes_inside depends on each cluster's offsets, so it can only be compared with what is right there.
            said = f"differs from the workload: {name}: {_what(other, wanted_there)}"
            verdict = Verdict(Outcome.AS_KAFKA, said)
        else:
            verdict = Verdict(Outcome.DIFFERS, f"{name}: {_what(got, other)}")
        if _WORSE.index(verdict.outcome) > _WORSE.index(found.outcome):
            found = Verdict(verdict.outcome, _cut(verdict.what))
    return found


def judge(line: Line, should: Line | None) -> Verdict:
    """Return the verdict on one scenario on one cluster, compared with the workload."""
    if line.unsupported:
        return Verdict(Outcome.UNSUPPORTED, line.unsupported)
    if not line.ok:
        return Verdict(Outcome.DIFFERS, _cut(f"error: {line.error}"))
    different = difference(line, should) if should else ""
    return Verdict(Outcome.DIFFERS, _cut(different)) if different else Verdict(Outcome.SAME)


def difference(found: Line, should: Line) -> str:
    """Return the first difference between a line and its expectation, or "" if there is none."""
    got, want = aspects(found), aspects(should)
    names = sorted(want if should.scenario == LEGACY else {*got, *want})
    for name in names:
        if got.get(name) != want.get(name):
            return f"{name}: {_what(got.get(name), want.get(name))}"
    return ""


def aspects(line: Line | None) -> dict[str, Any]:
    """Return the parts of a line that are compared one by one: the records of each partition, and each fact."""
    return {} if line is None else {**line.records, **line.facts}


def _what(got: Any, want: Any) -> str:
    some = got or want
    if not isinstance(some, list) or not some or not isinstance(some[0], str):
        return f"{got!r}, not {want!r}"
    return _first_difference(got or [], want or [])


def _first_difference(got: Sequence[str], want: Sequence[str]) -> str:
    counts = f"{len(got)} records, not {len(want)}" if len(got) != len(want) else "other records"
    for number in range(max(len(got), len(want))):
        one = got[number] if number < len(got) else "the end"
        other = want[number] if number < len(want) else "the end"
        if one != other:
            return f"{counts}; at {number}: {one!r}, not {other!r}"
    return counts


def _state(line: Line) -> str:
    if line.unsupported:
        return f"unsupported ({line.unsupported})"
    return "ok" if line.ok else f"error: {line.error}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_WHAT else f"{line[:_MAX_WHAT]}..."
