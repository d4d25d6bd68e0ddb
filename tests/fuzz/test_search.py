"""Runs a short reproducible atheris search. A finding fails the run and is printed.

It searches changes of the code or the corpus. tests/fuzz/search.py runs longer searches with other seeds.
"""

import re
from pathlib import Path

import pytest

from tests.fuzz.search import search
from tests.fuzz.targets import TARGETS

SEED = 1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.mkdir()
    wanted = TARGETS[name].runs
    ended = search(name, found, seed=SEED, runs=wanted)
    assert ended.returncode == 0, ended.stdout[-4000:]
    runs = re.search(r"number_of_executed_units: (\d+)", ended.stdout)
    assert runs is not None
    assert int(runs[1]) >= wanted
