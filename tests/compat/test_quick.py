"""The clients that need nothing but the virtual environment, on Lacuna; what Kafka gave is kept in expected.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import workload
from tests.compat.clients import Row, rows
from tests.compat.clusters import lacuna
from tests.compat.expected import expected, kept
from tests.compat.results import EXPECTED
from tests.compat.running import Bench, run_row
from tests.compat.verdicts import Outcome

QUICK = [row for row in rows() if row.quick]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Lacuna alone."""
    folder: Path = tmp_path_factory.mktemp("compat")
    with lacuna(folder) as bootstrap:
        yield Bench(None, bootstrap, folder)


def test_what_the_workload_says_is_what_kafka_gave() -> None:
    said = json.loads(EXPECTED.read_text())
    lines = expected(workload.make())
    assert said == {name: json.loads(json.dumps(kept(lines[name]))) for name in said}
    assert set(said) == {"produce", "transactions", "holes", "commit", "group", "eos"}


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.title)
def test_a_client_reads_what_it_reads_from_kafka(row: Row, bench: Bench) -> None:
    """S13 to S17, S26: holes are passed, lag is 0, aborted records never come."""
    result = run_row(row, bench)
    assert result.whole is None, result.whole
    wrong = {
        name: cell.what
        for name, cell in result.cells.items()
        if cell.outcome not in (Outcome.SAME, Outcome.UNSUPPORTED)
    }
    assert not wrong, [side.ran.stderr.read_text()[-2000:] for side in result.sides]
    assert sum(cell.outcome == Outcome.SAME for cell in result.cells.values()) >= 7
