"""Runs the whole matrix on Lacuna, and compares it with what was captured on Kafka."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.compat import workload
from tests.compat.captured import captured, is_captured
from tests.compat.clients import Row, chosen, rows
from tests.compat.clusters import lacuna
from tests.compat.composed import is_possible
from tests.compat.expected import expected
from tests.compat.expected import kept as kept_line
from tests.compat.page import PAGE, page
from tests.compat.results import EXPECTED, REFERENCE, entry, is_expected, kept
from tests.compat.run import bench
from tests.compat.running import Bench, Result, run_row
from tests.compat.verdicts import Outcome

ROWS = chosen(())
SECONDS = 1800
#: A row waits more than it works: for groups to settle, for sessions to end.
AT_ONCE = 6
#: Those of many programs, which take longest, first: so all lanes end together.
ORDER = sorted(ROWS, key=lambda row: row.kind == "client")
Waiter = Callable[[Row], Result]

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def where() -> Iterator[Bench]:
    """Starts Lacuna."""
    given = argparse.Namespace(lacuna=False, kafka=False, lacuna_bootstrap="", kafka_bootstrap="")
    given.cluster = "compose" if is_possible() else "process"
    given.captured = True
    with bench(given) as (made, _):
        yield made


@pytest.fixture(scope="module")
def result_of(where: Bench) -> Iterator[Waiter]:
    """Run rows concurrently, each once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {row.title: pool.submit(run_row, row, where) for row in ORDER}
        try:
            yield lambda row: futures[row.title].result()
        finally:
            pool.shutdown(cancel_futures=True)


def known(row: Row) -> dict[str, object]:
    """Return the committed result of a row."""
    (said,) = (
        one for one in kept()["clients"] if (one["name"], one["version"]) == (row.name, row.version)
    )
    return dict(said)


def outcomes(one: dict[str, object]) -> dict[str, str]:
    """Return the outcome of each scenario."""
    cells = one.get("cells", {})
    assert isinstance(cells, dict)
    return {name: cell["outcome"] for name, cell in cells.items()}


@slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_a_client_does_what_it_does_on_kafka(row: Row, result_of: Waiter) -> None:
    """Each outcome is the one of the page. A failure on both clusters says nothing about Lacuna."""
    if not is_captured(row):
        pytest.skip("it is not captured on Kafka")
    result = result_of(row)
    if result.whole is not None and result.whole.outcome == Outcome.NOT_RUN:
        pytest.skip(result.whole.what)
    told = result.whole or {name: result.cells[name].what for name in result.failed}
    assert not result.failed, told
    found = outcomes(entry(result))
    assert found == {name: outcomes(known(row))[name] for name in found}, result.cells


@slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_wrong_password_and_a_token_with_a_wrong_signature_are_refused(
    mechanism: str, where: Bench
) -> None:
    """Without this, the scram and oauthbearer cells would prove nothing."""
    assert where.security is not None
    assert where.lacuna is not None
    address = where.lacuna
    environment = where.security.environment
    said, _, signature = environment["COMPAT_TOKEN"].rpartition(".")
    errors: list[KafkaError] = []
    given = {
        "bootstrap.servers": address.secured,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": environment["COMPAT_CA"],
        "sasl.mechanism": mechanism,
        "error_cb": errors.append,
    }
    if mechanism == "OAUTHBEARER":
        token = f"{said}.{signature[::-1]}"
        given["oauth_cb"] = lambda _: (token, time.time() + 3600)
    else:
        given |= {"sasl.username": environment["COMPAT_USER"], "sasl.password": "wrong"}
    producer = Producer(given)
    deadline = time.monotonic() + 30
    while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        assert time.monotonic() < deadline, errors
        producer.poll(0.1)


def test_what_is_kept_of_kafka_is_what_was_captured() -> None:
    (row,) = (row for row in ROWS if row.name == REFERENCE and row.quick)
    there = captured(row, "prefix").ran.lines.values()
    said = {line.scenario: kept_line(line) for line in there if is_expected(line)}
    assert json.loads(EXPECTED.read_text()) == json.loads(json.dumps(said))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_the_capture_of_each_row_is_of_its_program(row: Row) -> None:
    if is_captured(row):
        assert captured(row, "prefix").ran.lines
    else:
        assert row.needs, "a program that no registry of packages has"


def test_the_page_is_written_from_the_results() -> None:
    assert PAGE.read_text() == page(kept())


def test_every_row_has_a_result() -> None:
    found = {(one["name"], one["version"]) for one in kept()["clients"]}
    assert found == {(row.name, row.version) for row in rows()}


def test_no_client_notices() -> None:
    """Every difference from Kafka is either a bug or listed here."""
    bad = [
        f"{one['name']}@{one['version']} {name}: {cell.get('what')}"
        for one in kept()["clients"]
        for name, cell in one.get("cells", {}).items()
        if cell["outcome"] == Outcome.DIFFERS
    ]
    assert not bad


QUICK = [row for row in rows() if row.quick]


@pytest.fixture(scope="module")
def quick_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Starts Lacuna alone."""
    folder: Path = tmp_path_factory.mktemp("compat")
    with lacuna(folder) as address:
        yield Bench(None, address, folder)


def test_what_the_workload_says_is_what_kafka_gave() -> None:
    said = json.loads(EXPECTED.read_text())
    lines = expected(workload.make())
    assert said == {name: json.loads(json.dumps(kept_line(lines[name]))) for name in said}
    assert set(said) == {"produce", "transactions", "holes", "commit", "group", "eos"}


@slow
def test_clients_read_what_they_read_from_kafka(quick_bench: Bench) -> None:
    """S13 to S17, S26: clients pass holes, reach lag 0 and see no aborted records.

    All clients run concurrently, because they mostly wait.
    """
    with ThreadPoolExecutor(len(QUICK)) as pool:
        for result in pool.map(run_row, QUICK, repeat(quick_bench)):
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
