"""Tests `lacuna doctor`: the client matrix's results for a given version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lacuna.base.errors import UserError
from lacuna.operating.clients import Cell, Client, ClientQuery, load, nearest, parse

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


def _client(name: str, version: str, **more: object) -> Client:
    cells = {"holes": Cell("same")}
    return Client(name=name, version=version, language="C", kafka="4.1", cells=cells, **more)  # type: ignore[arg-type]


CLIENTS = [
    _client("one", "0.9.2"),
    _client("one", "1.0.0", also=("wrapper",)),
    _client("one", "1.10.0"),
    _client("one", "1.10.0 (group.protocol=consumer)"),
    _client("two", "3"),
]


@pytest.mark.parametrize(
    ("asked", "versions"),
    [
        ("one@1.0.0", ["1.0.0"]),
        ("one@1.0", ["1.0.0"]),
        ("ONE@1.0", ["1.0.0"]),
        ("wrapper@1.0.0", ["1.0.0"]),
        ("one@1.2", ["1.0.0", "1.10.0", "1.10.0 (group.protocol=consumer)"]),
        ("one@2", ["1.10.0", "1.10.0 (group.protocol=consumer)"]),
        ("one@0.1", ["0.9.2"]),
        ("two", ["3"]),
        ("three@1", []),
    ],
)
def test_the_nearest_versions(asked: str, versions: list[str]) -> None:
    assert [one.version for one in nearest(CLIENTS, parse(asked))] == versions


@pytest.mark.parametrize("text", ["", "@", "@1", "name@", " "])
def test_what_names_no_client(text: str) -> None:
    with pytest.raises(UserError, match="is not a client: use NAME@VERSION"):
        parse(text)


@pytest.mark.parametrize("version", ["abc", "1..2", "1.", "-1", "9" * 5000, "1.2 3"])
def test_a_version_that_is_none(version: str) -> None:
    with pytest.raises(UserError, match="is not a version: use NAME@VERSION"):
        parse(f"librdkafka@{version}")


def test_a_scoped_name_is_a_name() -> None:
    asked = parse("@confluentinc/kafka-javascript@1.2.0")
    assert asked == ClientQuery("@confluentinc/kafka-javascript", "1.2.0")


def test_a_version_that_was_run(lacuna: Command) -> None:
    ran = lacuna("doctor", "--client", "librdkafka@2.0.2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("librdkafka 2.0.2, compared with Kafka 4.4: as with Kafka")
    assert ["holes", "as with Kafka", ""] in ran.rows
    assert any(row[0] == "advice" and "fetch.queue.backoff.ms" in row[1] for row in ran.rows)


def test_a_version_that_was_run_in_several_ways(lacuna: Command) -> None:
    """Each result is for exactly that version, not the nearest one."""
    ran = lacuna("doctor", "--client", "librdkafka@2.16.1")
    told = [line for line in ran.out.splitlines() if line.startswith("librdkafka 2.16.1")]
    assert len(told) == 2
    assert "nearest" not in ran.out
    assert "nearest" not in lacuna("doctor", "--client", "librdkafka@2.0.2.0").out


def test_a_version_between_two_that_were_run(lacuna: Command) -> None:
    """A wrapper's name stands for the library that it wraps."""
    ran = lacuna("doctor", "--client", "confluent-kafka@1.9.9")
    assert ran.code == 0, ran
    said = [row[0] for row in ran.rows if "the nearest version tested" in row[0]]
    assert [text.split(",")[0] for text in said] == [
        "librdkafka 1.9.2 (the nearest version tested)",
        "librdkafka 2.0.2 (the nearest version tested)",
    ]


def test_an_unknown_client_and_what_is_known(refused: Refusal) -> None:
    said = refused("doctor", "--client", "nobody@1")
    assert said.startswith(
        "nobody was not tested, so its behaviour is not known; the tested clients are "
    )
    assert "librdkafka" in said


def test_all_of_them(lacuna: Command) -> None:
    ran = lacuna("doctor")
    assert ran.code == 0
    assert ran.rows[0] == ["client", "version", "language", "here"]
    assert [row[:2] for row in ran.rows[1:]] == [[one.name, one.version] for one in load()]


def test_a_client_that_differs_is_exit_code_1(lacuna: Command) -> None:
    """Every known client is recognized by its log messages."""
    for one in load():
        if one.differing:
            ran = lacuna("doctor", "--client", f"{one.name}@{one.version}")
            assert ran.code == 1
            assert "differs from Kafka in" in ran.out


def test_as_json(lacuna: Command) -> None:
    every = json.loads(lacuna("doctor", "--json").out)
    assert {"client", "version", "language", "here"} == set(every[0])
    one = json.loads(lacuna("doctor", "--client", "librdkafka@2.16.1", "--json").out)
    assert {"scenario", "here", "notes"} == set(next(iter(one.values()))[0])
