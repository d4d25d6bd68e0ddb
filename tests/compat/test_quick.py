"""Runs the clients of the virtual environment on Lacuna, and compares with Kafka's results in expected.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import pytest

from tests.compat import workload
from tests.compat.clients import rows
from tests.compat.clusters import lacuna
from tests.compat.expected import expected, kept
from tests.compat.results import EXPECTED
from tests.compat.running import Bench, Result, run_row
from tests.compat.verdicts import Outcome

QUICK = [row for row in rows() if row.quick]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Starts Lacuna alone."""
    folder: Path = tmp_path_factory.mktemp("compat")
    with lacuna(folder) as address:
        yield Bench(None, address, folder)


def test_what_the_workload_says_is_what_kafka_gave() -> None:
    said = json.loads(EXPECTED.read_text())
    lines = expected(workload.make())
    assert said == {name: json.loads(json.dumps(kept(lines[name]))) for name in said}
    assert set(said) == {"produce", "transactions", "holes", "commit", "group", "eos"}


def test_clients_read_what_they_read_from_kafka(bench: Bench) -> None:
    """S13 to S17, S26: clients pass holes, reach lag 0 and see no aborted records.

    All clients run concurrently, because they mostly wait.
    """
    with ThreadPoolExecutor(len(QUICK)) as pool:
        for result in pool.map(run_row, QUICK, repeat(bench)):
            _check(result)


def _check(result: Result) -> None:
    assert result.whole is None, (result.row.title, result.whole)
    wrong = {
        name: cell.what
        for name, cell in result.cells.items()
        if cell.outcome not in (Outcome.SAME, Outcome.UNSUPPORTED)
    }
    said = [side.ran.stderr.read_text()[-2000:] for side in result.sides]
    assert not wrong, (result.row.title, wrong, said)
    assert sum(cell.outcome == Outcome.SAME for cell in result.cells.values()) >= 7
