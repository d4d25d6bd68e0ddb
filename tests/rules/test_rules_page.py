"""Tests docs/rules.md: the code and tests that it names exist, and each rule has a test that cites it."""

import ast
import re
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "rules.md").read_text(encoding="utf-8")
RULES = set(range(1, 27))

_ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| S")]
_TEST = re.compile(r"`(tests/[^`]+\.py)::(test_[a-z0-9_]+)`")
_CITED = re.compile(r"(?<![a-z0-9])s(\d{1,2})(?![0-9])", re.IGNORECASE)
_SPAN = re.compile(r"s(\d{1,2})(?:_to_|-)s(\d{1,2})", re.IGNORECASE)


@cache
def _texts(path: str) -> dict[str, str]:
    """Return, by test name, the texts that may cite rules: its name, its docstring, and its module's docstring."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    module = ast.get_docstring(tree) or ""
    return {
        node.name: "\n".join((node.name.replace("_", " "), ast.get_docstring(node) or "", module))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _cites(text: str) -> set[int]:
    spans = _SPAN.findall(text.replace(" to ", "_to_"))
    within = {rule for first, last in spans for rule in range(int(first), int(last) + 1)}
    return within | {int(rule) for rule in _CITED.findall(text)}


def _rules(row: list[str]) -> set[int]:
    return {int(rule) for rule in _CITED.findall(row[0])}


def test_every_test_that_is_named_exists() -> None:
    named = _TEST.findall(PAGE)
    assert len(named) > 100
    missing = [f"{path}::{name}" for path, name in named if name not in _texts(path)]
    assert missing == []


def test_every_place_that_is_named_exists() -> None:
    places = [place for row in _ROWS for place in re.findall(r"`([^`]+)`", row[2])]
    assert len(places) > 50
    assert [place for place in places if not (REPOSITORY / place).exists()] == []


def test_every_rule_is_on_the_page_and_cited_by_a_test_that_is_named_for_it() -> None:
    """Checks rules S1 to S26."""
    assert {rule for row in _ROWS for rule in _rules(row)} == RULES
    cited: set[int] = set()
    for row in _ROWS:
        for path, name in _TEST.findall(row[3]):
            cited |= _rules(row) & _cites(_texts(path)[name])
    assert cited >= RULES


def test_every_row_names_a_test() -> None:
    assert [row[0] + row[1] for row in _ROWS if not _TEST.findall(row[3])] == []
