"""Tests `lacuna explain`: the articles' figures, reproduced exactly, and limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lacuna.agent.fetch.explain import Row
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.operating.agents import AgentParts
from lacuna.operating.explained import explain_partition, lines_of, take
from lacuna.testing import Cluster
from tests.lacuna import clients
from tests.lacuna.conftest import with_lasting_leases

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

HEADINGS = ["first_offset", "end_offset", "what", "hole_end", "whose", "bytes", "extents", "object"]
DELIVERED, DROPPED, FILLER, UNDECIDED = "delivered", "dropped", "filler", "undecided"

Explain = Callable[..., list[tuple[str, ...]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster without merges, so that dropped records remain visible."""
    with Cluster(parts=AgentParts(housekeeping=None)) as made:
        yield with_lasting_leases(made)


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic for this test alone, with two partitions."""
    return cluster.create_topic(request.node.originalname, 2)


@pytest.fixture
def explain(lacuna: Command, cluster: Cluster) -> Explain:
    """Run `lacuna explain` against that cluster. Columns: offsets, kind, end of the hole, producer, extents."""

    def run(*arguments: str) -> list[tuple[str, ...]]:
        ran = lacuna("explain", *arguments, "-b", cluster.bootstrap)
        assert ran.code == 0, ran.err
        assert ran.rows[0] == HEADINGS
        return [(*row[:5], row[6]) for row in ran.rows[1:]]

    return run


def test_two_transactions_and_a_plain_producer(
    explain: Explain, cluster: Cluster, topic: str
) -> None:
    """001_: three interleaved producers: one whose transaction aborts, a plain one, and one that commits (S3, S14)."""
    aborted = clients.transactional(cluster.bootstrap, "explained-aborted")
    committed = clients.transactional(cluster.bootstrap, "explained-committed")
    plain = clients.plain(cluster.bootstrap)
    aborted.begin_transaction()
    committed.begin_transaction()
    for number in range(2):
        for producer, name in ((aborted, "a"), (plain, "p"), (committed, "c")):
            clients.send(producer, topic, [f"{name}{number}"])
    assert [(row[0], row[2]) for row in explain(topic)] == [
        (str(offset), UNDECIDED) for offset in range(6)
    ]
    aborted.abort_transaction(60)
    assert [row[2] for row in explain(topic)] == [DROPPED, DELIVERED, *[UNDECIDED] * 4]
    committed.commit_transaction(60)
    rows = explain(topic)
    assert [(first, end, what, hole_end) for first, end, what, hole_end, _, _ in rows] == [
        ("0", "1", DROPPED, "1"),
        ("1", "2", DELIVERED, ""),
        ("2", "3", DELIVERED, ""),
        ("3", "4", DROPPED, "4"),
        ("4", "5", DELIVERED, ""),
        ("5", "6", DELIVERED, ""),
    ]
    owners = [row[4].partition(",")[0] for row in rows]
    assert owners == ["explained-aborted", "no transaction", "explained-committed"] * 2
    read = clients.consume(cluster.bootstrap, topic, 4)
    assert read == [(1, "p0"), (2, "c0"), (4, "p1"), (5, "c1")]


def test_four_transactions_of_one_producer(explain: Explain, cluster: Cluster, topic: str) -> None:
    """004_, the figure without the offsets of control records: three of four transactions abort (S1, S14)."""
    producer = clients.transactional(cluster.bootstrap, "p1")
    for size, commit in ((2, True), (4, False), (1, False), (1, True)):
        producer.begin_transaction()
        for _ in range(size):
            clients.send(producer, topic, ["x"])
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)
    rows = [row[:4] for row in explain(topic)]
    assert rows == [
        ("0", "1", DELIVERED, ""),
        ("1", "2", DELIVERED, ""),
        ("2", "6", DROPPED, "7"),
        ("6", "7", DROPPED, "7"),
        ("7", "8", DELIVERED, ""),
    ]
    assert [row[5] for row in explain(topic)] == ["1", "1", "4", "1", "1"]


def test_a_range_that_was_aborted_whole(explain: Explain, cluster: Cluster, topic: str) -> None:
    """004_: offsets 0 to 10 contain nothing for the consumer, which next requests offset 11 (S17)."""
    producer = clients.transactional(cluster.bootstrap, "whole")
    producer.begin_transaction()
    for number in range(11):
        clients.send(producer, topic, [f"r{number}"])
    producer.abort_transaction(60)
    dropped, filler = explain(topic)
    assert dropped[:4] == ("0", "11", DROPPED, "11")
    assert (dropped[4].partition(",")[0], dropped[5]) == ("whole", "11")
    assert filler == ("0", "11", FILLER, "", "", "0")
    assert explain(topic, "--from", "5")[-1][:3] == ("5", "11", FILLER)


@pytest.mark.slow
def test_parts_and_limits(lacuna: Command, explain: Explain, cluster: Cluster, topic: str) -> None:
    plain = clients.plain(cluster.bootstrap)
    for number in range(6):
        clients.send(plain, topic, [f"v{number}"])
    assert [row[0] for row in explain(topic, "0", "--from", "2", "--to", "4")] == ["2", "3"]
    ran = lacuna("explain", topic, "--limit", "2", "--data", str(cluster.data))
    assert [row[0] for row in ran.rows[1:]] == ["0", "1"]
    assert (
        ran.err == "there are more rows: continue with --from 2, or show more rows with --limit\n"
    )
    control = (cluster.data / "control.address").read_text()
    assert len(lacuna("explain", topic, "--control", control).rows) == 7


def test_what_was_merged_is_of_no_known_transaction(lacuna: Command) -> None:
    merge = MergeSettings(min_age_ms=0, min_extents=2)
    with Cluster(parts=AgentParts(housekeeping=HousekeepingSettings(merge=merge))) as cluster:
        topic = cluster.create_topic("merged")
        producer = clients.transactional(cluster.bootstrap, "shop")
        for number in range(4):
            clients.transact(producer, topic, [f"v{number}"])
        housekeeping = cluster.embedded.agents[0].housekeeping
        assert housekeeping is not None
        cluster.run(housekeeping.merge())
        ran = lacuna("explain", topic, "--json", "--data", str(cluster.data))
    (row,) = json.loads(ran.out)
    assert (row["first_offset"], row["end_offset"], row["what"]) == (0, 4, DELIVERED)
    assert row["whose"] == "unknown, because merged"
    assert row["hole_end"] is None


def test_what_is_not_there(refused: Refusal, cluster: Cluster, topic: str) -> None:
    data = ("--data", str(cluster.data))
    assert "`lacuna topics list` lists the topics" in refused("explain", "nothing", *data)
    assert "has partitions 0 to 1, not 2" in refused("explain", topic, "2", *data)
    said = refused("explain", topic, "--from", "5", *data)
    assert (
        said
        == f"{topic} [0] begins at offset 0 and ends before offset 0: choose --from and --to within that range"
    )


class _Behind:
    """A client that learns of topics only with its next response."""

    def __init__(self, control: Any) -> None:
        self._control = control
        self.cluster = SimpleNamespace(topics_by_name={}, ready=control.cluster.ready)
        self.partition = control.partition

    async def call(self, command: Any) -> Any:
        reply = await self._control.call(command)
        self.cluster.topics_by_name = self._control.cluster.topics_by_name
        return reply


def test_s7_that_there_is_no_topic_is_told_after_a_confirming_read(
    cluster: Cluster, topic: str
) -> None:
    """S7: a topic that another session has just created exists."""
    control: Any = _Behind(cluster.embedded.control)
    assert cluster.run(explain_partition(control, topic, 1)).high_watermark == 0


@pytest.mark.slow
def test_it_is_a_table_for_people(lacuna: Command, cluster: Cluster, topic: str) -> None:
    clients.send(clients.plain(cluster.bootstrap), topic, ["x"])
    ran = lacuna("explain", topic, "--data", str(cluster.data), columns=100, FORCE_COLOR="1")
    assert f"{topic} [0]: what a read_committed consumer receives" in ran.out
    assert "log start 0, last stable offset 1, high watermark 1" in ran.out


def rows(text: str) -> Iterator[Row]:
    """Return rows with one offset each: a letter is a dropped transaction, + delivered, . a hole."""
    for offset, letter in enumerate(text):
        fate = {"+": Fate.DELIVERED, ".": Fate.HOLE}.get(letter, Fate.DROPPED)
        transaction = ord(letter) if fate is Fate.DROPPED else 0
        yield Row(
            fate=fate, first_offset=offset, next_offset=offset + 1, transaction=transaction, size=1
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("+", [(0, 1, 1, -1)]),
        ("aaa", [(0, 3, 3, 3)]),
        ("aab+", [(0, 2, 2, 3), (2, 3, 1, 3), (3, 4, 1, -1)]),
        ("aa+aa+", [(0, 2, 2, 2), (2, 3, 1, -1), (3, 5, 2, 5), (5, 6, 1, -1)]),
        ("a.a+", [(0, 1, 1, 3), (1, 2, 1, 3), (2, 3, 1, 3), (3, 4, 1, -1)]),
    ],
)
def test_lines(text: str, expected: list[tuple[int, int, int, int]]) -> None:
    """First offset, next offset, extents, and end of the hole."""
    found = [
        (each.row.first_offset, each.row.next_offset, each.extents, each.hole_end)
        for each in lines_of(rows(text))
    ]
    assert found == expected


@pytest.mark.slow
def test_a_hundred_thousand_aborted_extents_are_one_row() -> None:
    found, more_from = take(lines_of(rows("a" * 100_000 + "+")), 2)
    assert [(each.extents, each.row.size) for each in found] == [(100_000, 100_000), (1, 1)]
    assert more_from == -1
    assert take(lines_of(rows("+" * 5)), 2)[1] == 2
