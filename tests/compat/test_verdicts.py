"""Tests the verdicts that the runner derives from a program's lines."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat import programs, results, running, workload
from tests.compat.clients import ClientFileError, Row, chosen, rows
from tests.compat.expected import expected
from tests.compat.feeding import Stored
from tests.compat.page import page
from tests.compat.programs import Line, Ran
from tests.compat.running import Result
from tests.compat.verdicts import Outcome, Side, Verdict, compare

RIGHT = Line("holes", ok=True, records={"start/0": ["a=1"]}, facts={"at_end": ["start"]})
WRONG = Line(
    "holes", ok=True, records={"start/0": ["a=1", "aborted=1"]}, facts={"at_end": ["start"]}
)
LAGS = Line("holes", ok=True, records={"start/0": ["a=1"]}, facts={"at_end": []})
FAILS = Line("holes", ok=False, error="no")
LACKS = Line("holes", ok=False, unsupported="cannot")
MARKED = Line(
    "holes", ok=True, records={"start/0": ["a=1", "\0\0\0\1=x"]}, facts={"at_end": ["start"]}
)


def _side(line: Line | None, *, is_wanted: bool = True) -> Side:
    ran = Ran({} if line is None else {"holes": line}, "", Path())
    return Side(ran, {"holes": RIGHT} if is_wanted else {})


@pytest.mark.parametrize(
    ("kafka", "lacuna", "outcome"),
    [
        (RIGHT, RIGHT, Outcome.SAME),
        (MARKED, RIGHT, Outcome.SAME),
        (WRONG, RIGHT, Outcome.RIGHT),
        (LAGS, RIGHT, Outcome.RIGHT),
        (FAILS, RIGHT, Outcome.RIGHT),
        (WRONG, WRONG, Outcome.AS_KAFKA),
        (LAGS, LAGS, Outcome.AS_KAFKA),
        (FAILS, FAILS, Outcome.AS_KAFKA),
        (LACKS, LACKS, Outcome.UNSUPPORTED),
        (RIGHT, WRONG, Outcome.DIFFERS),
        (RIGHT, LAGS, Outcome.DIFFERS),
        (LAGS, WRONG, Outcome.DIFFERS),
        (RIGHT, FAILS, Outcome.DIFFERS),
        (RIGHT, LACKS, Outcome.DIFFERS),
        (LACKS, RIGHT, Outcome.DIFFERS),
        (FAILS, WRONG, Outcome.DIFFERS),
        (RIGHT, None, Outcome.DIFFERS),
        (None, None, Outcome.DIFFERS),
        (None, LACKS, Outcome.UNSUPPORTED),
    ],
)
def test_one_cell(kafka: Line, lacuna: Line, outcome: Outcome) -> None:
    verdict = compare("holes", _side(kafka), _side(lacuna))
    assert verdict.outcome == outcome
    assert bool(verdict.what) == (outcome != Outcome.SAME)


@pytest.mark.parametrize(
    ("kafka", "lacuna", "outcome"),
    [
        (WRONG, WRONG, Outcome.SAME),
        (WRONG, RIGHT, Outcome.DIFFERS),
        (FAILS, RIGHT, Outcome.DIFFERS),
    ],
)
def test_of_a_tool_kafka_alone_says_what_is_right(
    kafka: Line, lacuna: Line, outcome: Outcome
) -> None:
    sides = (_side(kafka, is_wanted=False), _side(lacuna, is_wanted=False))
    assert compare("holes", *sides).outcome == outcome


@pytest.mark.parametrize(("got", "other"), [([], []), ([], ["a"]), (["a"], [1]), (None, [])])
def test_facts_are_compared_whatever_they_are(got: object, other: object) -> None:
    lines = [Line("holes", ok=True, facts={"fact": value}) for value in (other, got)]
    verdict = compare("holes", *(_side(line, is_wanted=False) for line in lines))
    assert verdict.outcome == (Outcome.SAME if got == other else Outcome.DIFFERS)


def test_holes_inside_are_right_or_wrong_where_they_begin() -> None:
    """Offsets differ between clusters, so the first records do too."""
    there, here = (Line("holes_inside", ok=True, records={"middle/0": [name]}) for name in "ab")
    ran = [Ran({"holes_inside": line}, "", Path()) for line in (there, here)]
    sides = [Side(r, {"holes_inside": w}) for r, w in zip(ran, (there, here), strict=True)]
    assert compare("holes_inside", *sides).outcome == Outcome.SAME
    wrong_here = [Side(r, {"holes_inside": there}) for r in ran]
    assert compare("holes_inside", *wrong_here).outcome == Outcome.DIFFERS
    wrong_both = [Side(r, {"holes_inside": MARKED}) for r in ran]
    assert compare("holes_inside", *wrong_both).outcome == Outcome.AS_KAFKA


def test_the_first_records_behind_the_tenths() -> None:
    stored = Stored(((5, "a"), (12, "b"), (15, "a")), 0, 20)
    assert stored.firsts() == ["a", "b", "a"]
    assert Stored((), 0, 20).firsts() == []


def test_what_is_committed_of_the_feeds() -> None:
    lines = {name: line.records for name, line in expected(workload.make()).items()}
    assert [len(lines["holes"].get(f"{name}/0", ())) for name in workload.FEEDS] == [
        12,
        20,
        14,
        0,
        87,
    ]
    without_zstd = expected(workload.make(("none", "lz4")))
    assert {name: line.records for name, line in without_zstd.items()} == lines


def _row(folder: Path, script: str, seconds: int = 20, **changed: Any) -> Row:
    run = (sys.executable, "-c", script)
    return dataclasses.replace(rows()[0], folder=folder, run=run, seconds=seconds, **changed)


def test_a_program_that_prints_other_things_too(tmp_path: Path) -> None:
    line = json.dumps({"scenario": "holes", "ok": True, "records": {"all/0": []}})
    ran = programs.run(
        _row(tmp_path, f"print('hello'); print('{line}'); print(1)"), "b", tmp_path, "p", tmp_path
    )
    assert ran.lines == {"holes": Line("holes", ok=True)}
    assert ran.ended == ""


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.run(['sleep', '60'])"
    ran = programs.run(_row(tmp_path, script, seconds=1), "b", tmp_path, "p", tmp_path)
    assert ran.ended == "killed after 1 s"


def test_a_program_that_fails_is_told_by_its_last_line(tmp_path: Path) -> None:
    ran = programs.run(_row(tmp_path, "raise SystemExit('why')"), "b", tmp_path, "p", tmp_path)
    assert ran.ended == "exit code 1: why"


def test_a_build_is_repeated_when_its_sources_have_changed_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.compat.clients.OUT", tmp_path / "out")
    folder = tmp_path / "client"
    folder.mkdir()
    command = ("sh", "-c", "cat source >> {out}/made; test ! -e broken")
    row = _row(folder, "", build=(command,))
    for text, made in (("a", "a"), ("a", "a"), ("b", "ab"), ("b", "ab")):
        (folder / "source").write_text(text)
        programs.build(row)
        assert (row.out / "made").read_text() == made
    (folder / "broken").touch()
    for made in ("abb", "abbb"):
        with pytest.raises(programs.BuildError):
            programs.build(row)
        assert (row.out / "made").read_text() == made


def test_long_records_are_told_by_their_digest() -> None:
    one, other = programs.shortened("k=" + "a" * 200), programs.shortened("k=" + "a" * 199 + "b")
    assert one != other
    assert len(one) < 120
    assert programs.shortened("k=v") == "k=v"


def test_a_client_file_that_breaks_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    for text, said in (
        ('kind = "kind"', "kind is one of"),
        ('colour = "red"', "unknown keys colour"),
        ("", "needs either run or not_run"),
    ):
        client = f'[[clients]]\nfolder = "one"\nname = "one"\nlanguage = "C"\n{text}\n'
        path.write_text(f'{client}[[clients.versions]]\nversion = "1"\n')
        with pytest.raises(ClientFileError, match=said):
            rows(path)


def test_rows_by_name_and_by_version() -> None:
    assert [row.name for row in chosen(["kafka-python@3.0.12"])] == ["kafka-python"]
    with pytest.raises(ClientFileError, match="there is no such row; there are"):
        chosen(["nobody"])


def test_a_row_by_hand_runs_only_if_it_is_named() -> None:
    by_hand = {row.name for row in rows()} - {row.name for row in chosen(())}
    assert by_hand == {"apicurio-registry", "kafka-streams (streams protocol)"}
    assert [row.name for row in chosen(["apicurio"])] == ["apicurio-registry"]


def test_the_page_names_what_was_not_run_and_why() -> None:
    made = {
        "made": {"on": "2026-01-01", "lacuna": "1", "cluster": "one agent", "kafka": "4.1.0"},
        "clients": [
            {
                "name": "one", "version": "1", "language": "C", "kind": "client", "kafka": "4.1",
                "cells": {"holes": {"outcome": "differs", "what": "a | b"}},
            },
            {
                "name": "two", "version": "2", "language": "D", "kind": "client", "kafka": "4.1",
                "outcome": "not run", "what": "no compiler",
            },
        ],
    }  # fmt: skip
    text = page(made)
    assert "✗ <sup>1</sup>" in text
    assert "1. a \\| b" in text
    assert "| two | 2 | not run: no compiler |" in text


def test_a_row_that_cannot_run_here_keeps_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "clients.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "clients.md")
    row = _row(tmp_path, "", needs=("no-such-program",))
    verdict = {"produce": Verdict(Outcome.SAME)}
    results.keep([Result(row, verdict)], [row], "a cluster")
    found = results.kept()["clients"]
    absent = running.prepare(row)
    assert absent is not None
    results.keep([absent], [row], "a cluster")
    assert results.kept()["clients"] == found
    assert found[0]["cells"] == {"produce": {"outcome": "same"}}
