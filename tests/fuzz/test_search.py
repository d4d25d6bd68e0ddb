"""atheris looks further for a while; what it finds fails the run and is printed."""

import re
from pathlib import Path

import pytest

from tests.fuzz.search import search
from tests.fuzz.targets import TARGETS

SECONDS = 5
LEAST_RUNS = 1_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.mkdir()
    ended = search(name, SECONDS, found)
    assert ended.returncode == 0, ended.stdout[-4000:]
    runs = re.search(r"number_of_executed_units: (\d+)", ended.stdout)
    assert runs is not None
    assert int(runs[1]) > LEAST_RUNS
