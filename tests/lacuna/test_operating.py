"""Tests `lacuna groups lag`, `transactions blame`, `topics alter`, `status`, and the output of all commands that print
tables.
"""

from __future__ import annotations

import json
import re
import shlex
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lacuna.agent.produce.flush import Flusher
from lacuna.cli.tables import contexts
from lacuna.controlplane import service
from lacuna.controlplane.v1.cluster_pb2 import (
    Agent,
    AgentDescription,
    AgentReport,
    ClusterDescribed,
    MergeCounts,
)
from lacuna.controlplane.v1.control_pb2 import (
    AgentHealth,
    AskedControlPlane,
    ControlPlaneStatus,
    Standby,
    StoreProbe,
)
from lacuna.operating import checkup
from lacuna.operating.checkup import Seen, SeenAgent, problems_of
from lacuna.testing import Cluster
from tests.forked import ForkedCluster
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Asks, Command, NewTopic, Refusal

ROOT = Path(__file__).parents[2]
NOW_MS = 1_800_000_000_000


def test_lag_reaches_zero_behind_aborted_records(
    asks: Asks, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    producer = clients.transactional(lacuna_cluster.bootstrap, f"{topic}-shop")
    for committed in (True, False):
        clients.transact(producer, topic, ["x"] * 5, commits=committed)
    group = f"{topic}-readers"
    clients.commit(lacuna_cluster.bootstrap, group, topic, 2)
    (row,) = asks("groups", "lag", group)
    assert (row["topic"], row["committed"], row["lag"]) == (topic, 2, 3)
    assert row["lag_s"] >= 0
    (described,) = asks("groups", "describe", group)["offsets"]
    assert described == {each: row[each] for each in described}
    clients.commit(lacuna_cluster.bootstrap, group, topic, 5)
    (row,) = asks("groups", "lag", group)
    assert (row["lag"], row["lag_s"], row["last_stable"], row["waiting"]) == (0, 0.0, 10, 0)
    (described,) = asks("groups", "describe", group)["offsets"]
    assert described == {each: row[each] for each in described}
    assert described["lag"] == 0


def test_the_lag_of_an_internal_topic(
    asks: Asks, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    clients.commit(lacuna_cluster.bootstrap, f"{lacuna_topic()}-any", "__consumer_offsets", 0)
    reader = f"{lacuna_topic()}-reader"
    clients.commit(lacuna_cluster.bootstrap, reader, "__consumer_offsets", 0)
    (row,) = asks("groups", "describe", reader)["offsets"]
    assert row["lag"] == row["last_stable"] - row["committed"]


@pytest.mark.slow
def test_who_is_to_blame(asks: Asks, lacuna_cluster: Cluster, lacuna_topic: NewTopic) -> None:
    """With two open transactions, ending the first releases the records before the second."""
    topic = lacuna_topic()
    plain = clients.plain(lacuna_cluster.bootstrap)
    clients.send(plain, topic, ["x"] * 2)
    first = clients.opened(lacuna_cluster.bootstrap, f"{topic}-first", topic, ["open"] * 3)
    clients.send(plain, topic, ["x"] * 4)
    second = clients.opened(lacuna_cluster.bootstrap, f"{topic}-second", topic, ["open"])
    clients.send(plain, topic, ["x"])
    clients.commit(lacuna_cluster.bootstrap, f"{topic}-waits", topic, 2)
    clients.commit(lacuna_cluster.bootstrap, f"{topic}-is-behind", topic, 1)
    (row,) = asks("transactions", "blame", topic)
    assert row.pop("open_s") >= 0
    assert row == {
        "partition": 0,
        "transactional_id": f"{topic}-first",
        "timeout_s": 900.0,
        "last_stable": 2,
        "cut": 2,
        "waiting": 9,
        "own": 3,
        "if_committed": 7,
        "if_aborted": 4,
        "groups": f"{topic}-waits",
    }
    first.abort_transaction(60)
    (row,) = asks("transactions", "blame", topic)
    assert (row["transactional_id"], row["last_stable"]) == (f"{topic}-second", 9)
    second.commit_transaction(60)
    assert asks("transactions", "blame", topic) == []


def test_a_partition_whose_exports_wait_for_another_one(
    asks: Asks, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic(2)
    holder = clients.transactional(lacuna_cluster.bootstrap, f"{topic}-holder")
    holder.begin_transaction()
    holder.produce(topic, b"open", partition=1)
    assert holder.flush(60) == 0
    transfer = clients.transactional(lacuna_cluster.bootstrap, f"{topic}-transfer")
    transfer.begin_transaction()
    for partition in (0, 1):
        transfer.produce(topic, b"x", partition=partition)
    transfer.commit_transaction(60)
    rows = asks("transactions", "blame", topic)
    columns = ("partition", "transactional_id", "last_stable", "cut", "waiting")
    assert [tuple(map(row.get, columns)) for row in rows] == [
        (0, f"{topic}-holder", 1, 0, 0),
        (1, f"{topic}-holder", 0, 0, 2),
    ]
    holder.commit_transaction(60)
    assert asks("transactions", "blame", topic) == []


def test_lag_and_blame_of_what_is_not_there(refuse: Refusal) -> None:
    assert "has not committed any offsets" in refuse("groups", "lag", "nobody")
    assert "there is no topic 'none'" in refuse("transactions", "blame", "none")


def test_a_topic_is_altered(
    asks: Asks, ask: Command, refuse: Refusal, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    alter = ("topics", "alter", topic)
    ran = ask(*alter, "-c", "retention.ms=1000", "--partitions", "3")
    assert ran.out == f"altered {topic}: retention.ms=1000, 3 partitions\n"
    described = asks("topics", "describe", topic)
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    configs = {row["config"]: (row["value"], row["set"]) for row in described["configs"]}
    assert configs["retention.ms"] == ("1000", "here")
    assert (
        ask(*alter, "-u", "retention.ms").out
        == f"altered {topic}: retention.ms reset to its default\n"
    )
    places = {row["config"]: row["set"] for row in asks("topics", "describe", topic)["configs"]}
    assert places["retention.ms"] == "default"
    assert "nothing to change" in refuse(*alter)
    assert "use NAME=VALUE" in refuse(*alter, "-c", "retention.ms")
    assert "no.such" in refuse(*alter, "-c", "no.such=1")
    assert "partitions" in refuse(*alter, "--partitions", "2")


def test_topics_are_listed_with_what_is_in_them(
    asks: Asks, ask: Command, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic(partitions=2)
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["x"] * 5)

    def listed(*options: str) -> dict[str, Any]:
        (row,) = (row for row in asks("topics", "list", *options) if row["topic"] == topic)
        return dict(row)

    row = listed()
    assert (row["partitions"], row["records"], row["retention"]) == (2, 5, "7d")
    assert row["bytes"] > 0
    assert row["rate"] is None
    assert "None" not in ask("topics", "list", "-o", "table").out
    assert listed("--rates", "100ms")["rate"] == 0
    units = ("-c", "retention=36h", "-c", "retention=1GiB", "-c", "segment.bytes=64MiB")
    changed = "retention.ms=129600000, retention.bytes=1073741824, segment.bytes=67108864"
    assert ask("topics", "alter", topic, *units).out == f"altered {topic}: {changed}\n"
    assert listed()["retention"] == "36h, 1.0 GiB a partition"


def test_a_topic_is_trimmed(
    asks: Asks, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic(partitions=2)
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["x"] * 5)
    trim = ("topics", "trim", topic)
    assert "Add --yes to confirm" in refuse(*trim, "--before", "3")
    rows = asks(*trim, "--before", "end-2", "--yes")
    assert [(row["partition"], row["log_start"]) for row in rows] == [(0, 3), (1, 0)]
    late = refuse(*trim, "--before", "99", "--yes")
    assert f"--before 99: {topic} ends earlier, at 5" in late
    (row,) = asks(*trim, "--before", "end", "--partition", "0", "--yes")
    assert row["log_start"] == 5


def test_quotas_are_set_and_removed(asks: Asks, ask: Command, refuse: Refusal) -> None:
    whose = ("--user", "alice", "--client", "*")
    ran = ask("quotas", "set", "produce=10MiB", "requests=50%", *whose)
    assert ran.out == "set produce=10MiB, requests=50% for user alice, client *\n"
    rows = [row for row in asks("quotas", "list") if row["user"] == "alice"]
    assert [(row["client"], row["quota"], row["value"]) for row in rows] == [
        ("*", "produce", 10 << 20),
        ("*", "requests", 50),
    ]
    assert "10.0 MiB/s" in ask("quotas", "list", "-o", "table").out
    assert ask("quotas", "remove", "produce", "requests", *whose).code == 0
    assert not any(row["user"] == "alice" for row in asks("quotas", "list"))
    set_ = ("quotas", "set")
    assert "specify whose quotas" in refuse(*set_, "produce=1")
    assert "--host cannot be combined" in refuse(*set_, "produce=1", "--host", "1.1.1.1", *whose)
    assert "is not a quota" in refuse(*set_, "bytes=1", *whose)
    assert "use QUOTA=VALUE" in refuse(*set_, "produce", *whose)
    assert "half is not a number" in refuse(*set_, "requests=half", *whose)


def test_open_transactions_are_listed_the_oldest_first(
    asks: Asks, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    open_ones = []
    for name in ("zebra", "ant"):
        producer = clients.opened(lacuna_cluster.bootstrap, f"{topic}-{name}", topic, ["x"])
        open_ones.append(producer)
    rows = [row for row in asks("transactions", "list", "--open") if row["topics"] == topic]
    assert [row["transactional_id"] for row in rows] == [f"{topic}-zebra", f"{topic}-ant"]
    assert rows[0]["open_s"] >= rows[1]["open_s"] >= 0
    for producer in open_ones:
        producer.abort_transaction(60)
    both = refuse("transactions", "list", "--open", "--state", "Empty")
    assert "use only one of them" in both


def test_a_wrong_name_offers_the_nearest(
    refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    clients.commit(lacuna_cluster.bootstrap, f"{topic}-readers", topic, 0)
    for command in (
        ("explain", f"{topic}s"),
        ("transactions", "blame", f"{topic}s"),
        ("time-travel", f"{topic}s", "--at", "-1s"),
        ("topics", "describe", f"{topic}s"),
        ("topics", "alter", f"{topic}s", "--partitions", "2"),
        ("topics", "delete", f"{topic}s", "--yes"),
    ):
        assert f"did you mean {topic}?" in refuse(*command)
    for command in (("groups", "describe"), ("groups", "delete")):
        assert f"did you mean {topic}-readers?" in refuse(*command, f"{topic}-reader")


def test_a_cluster_at_a_glance(asks: Asks, lacuna_cluster: Cluster, lacuna_topic: NewTopic) -> None:
    topic = lacuna_topic(partitions=2)
    producer = clients.opened(lacuna_cluster.bootstrap, f"{topic}-open", topic, ["x"])
    told = asks("status")
    assert f"{told['agents'][0]['address']}" == lacuna_cluster.bootstrap
    counts = {(row["what"], row["state"]): row["count"] for row in told["counts"]}
    assert counts["partitions", ""] >= counts["topics", ""] + 1
    assert counts["transactional ids", "Ongoing"] >= 1
    producer.abort_transaction(60)


def test_a_store_that_fails_is_named_first(
    lacuna: Command, lacuna_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("status", "-b", lacuna_cluster.bootstrap)
    monkeypatch.setattr(service, "_disk_of", lambda _: (0, 0))
    monkeypatch.setattr(checkup, "_SLOW_SECONDS", inf)
    ran = lacuna(*command)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("all is well") or ": all is well\n" in ran.out
    monkeypatch.setattr(Flusher, "why_store_fails", lambda _: "no space left")
    ran = lacuna(*command)
    assert ran.code == 1
    assert ": 1 problem\n" in ran.out
    severity, part, problem, remedy = ran.rows[2]
    assert (severity, part) == ("failing", "agent 1")
    assert "cannot write to the object store" in problem
    assert "/readyz" in remedy


def agents(**agent: Any) -> Seen:
    return Seen(agents=[SeenAgent(node_id=1, address="a:1", **agent)])


def health(**parts: Any) -> Seen:
    return Seen(health=AgentHealth(**parts))


def leader(**status: Any) -> AskedControlPlane:
    return AskedControlPlane(address="c:7070", status=ControlPlaneStatus(is_leader=True, **status))


def led(**status: Any) -> Seen:
    return health(control_planes=[leader(**status)])


def reported(**report: Any) -> Seen:
    agent = AgentDescription(agent=Agent(node_id=1), report=AgentReport(**report))
    return Seen(described=ClusterDescribed(agents=[agent]))


SILENT = AskedControlPlane(address="c:1", problem="refused")
FAILED = MergeCounts(last_failure="403", last_failure_ms=NOW_MS - 1000)
BLOCKED = ClusterDescribed(partitions_blocked=2, oldest_transaction_ms=70_000)
HIDDEN = AgentDescription(agent=Agent(node_id=3), is_hidden=True)
WEAK = AgentHealth(weaknesses=["everybody may do everything: use --authorizer"])


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (agents(problem="refused"), ["failing agent 1"]),
        (agents(kernel="interpreted"), ["degraded agent 1"]),
        (health(store=StoreProbe(problem="403")), ["failing store"]),
        (health(store=StoreProbe(put_seconds=1.5)), ["degraded store"]),
        (health(control_planes=[SILENT]), ["failing control plane c:1", "failing control plane"]),
        (health(control_planes=[leader(), SILENT]), ["degraded control plane c:1"]),
        (led(position=20_001, standbys=[Standby(address="s:1")]), ["degraded control plane s:1"]),
        (led(backlog=20_000), ["degraded control plane"]),
        (led(is_time_doubtful=True, clocks_ahead_ms=90_000), ["degraded clocks"]),
        (led(disk_bytes=100 << 30, disk_free_bytes=5 << 30), ["degraded disk"]),
        (led(disk_bytes=100 << 30, disk_free_bytes=1 << 29), ["failing disk"]),
        (led(disk_bytes=1 << 40, disk_free_bytes=20 << 30), []),
        (reported(merges=FAILED), ["degraded merging"]),
        (reported(merges=MergeCounts(last_failure="403", last_failure_ms=1)), []),
        (reported(clock_ms=NOW_MS, store_clock_ms=NOW_MS - 11_000), ["degraded clocks"]),
        (Seen(described=BLOCKED, lasting=["shop"]), ["degraded transactions"]),
        (
            Seen(health=WEAK, described=ClusterDescribed(agents=[HIDDEN])),
            ["degraded agent 3", "advice settings"],
        ),
    ],
)
def test_each_problem_is_found(seen: Seen, found: list[str]) -> None:
    problems = problems_of(seen, NOW_MS)
    assert [f"{each.severity.name.lower()} {each.part}" for each in problems] == found
    assert all(each.what and each.remedy for each in problems)


def test_the_health_of_a_cluster_that_is_not_there(lacuna: Command) -> None:
    ran = lacuna("status", "--json", "-b", "127.0.0.1:1")
    assert ran.code == 1
    (problem,) = json.loads(ran.out)["problems"]
    assert (problem["severity"], problem["part"]) == ("failing", "agents")
    assert "no agent answers at 127.0.0.1:1" in problem["problem"]
    assert len(lacuna("status", "-b", "127.0.0.1:1").rows) == 3


@pytest.mark.slow
def test_a_group_is_reset(
    asks: Asks, ask: Command, refuse: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """The command first shows the change, then makes it. The end stops before an open transaction, and a group with
    members is rejected.
    """
    topic = lacuna_topic()
    clients.send(clients.plain(lacuna_cluster.bootstrap), topic, ["x"] * 5)
    producer = clients.opened(lacuna_cluster.bootstrap, f"{topic}-open", topic, ["open"])
    group = f"{topic}-readers"
    clients.commit(lacuna_cluster.bootstrap, group, topic, 3)
    for to, offset in (("earliest", 0), ("end", 5), ("end-2", 3), ("4", 4), ("1h", 0)):
        (row,) = asks("groups", "reset", group, "--to", to)
        assert row == {"topic": topic, "partition": 0, "committed": 3, "reset_to": offset}
    said = ask("groups", "reset", group, "--to", "end").out.splitlines()
    assert said[-1] == "nothing was changed: add --execute to reset 1 partition"
    said = ask("groups", "reset", group, "--to", "end", "--execute").out.splitlines()
    assert said[-1] == f"reset {group} in 1 partition"
    (row,) = asks("groups", "lag", group)
    assert (row["committed"], row["lag"], row["waiting"]) == (5, 0, 1)
    producer.abort_transaction(60)
    member = clients.member(lacuna_cluster.bootstrap, group, topic)
    told = refuse("groups", "reset", group, "--to", "0")
    assert "its members would overwrite the offsets" in told
    member.close()
    nobody = refuse("groups", "reset", f"{topic}-nobody", "--to", "0")
    assert "specify topics with --topic" in nobody
    (row,) = asks("groups", "reset", f"{topic}-nobody", "--to", "0", "--topic", topic)
    assert (row["committed"], row["reset_to"]) == ("", 0)
    assert "--to soon: use earliest" in refuse("groups", "reset", group, "--to", "soon")
    late = refuse("groups", "reset", group, "--to", "99")
    assert f"--to 99: {topic} ends earlier, at " in late


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("transactions", "list"), ("groups", "list")]
)
def test_how_tables_are_printed(ask: Command, refuse: Refusal, command: tuple[str, ...]) -> None:
    columns = ask(*command, "--output", "tsv")
    assert columns.out == ask(*command).out
    assert "\t" in columns.out
    drawn = ask(*command, "--output", "table").out
    assert "\t" not in drawn
    json.loads(ask(*command, "-o", "json").out)
    assert "'xml' is not one of" in refuse(*command, "-o", "xml", code=2)


def test_what_keda_asks_of_a_transactional_topic(
    lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    """KEDA's Kafka scaler subtracts committed offsets from the newest ones, and scales to zero if nothing is left.

    In Kafka, the end of a transaction takes an offset, so one record always seems to remain (keda#5675).
    """
    topic = lacuna_topic()
    producer = clients.transactional(lacuna_cluster.bootstrap, f"{topic}-shop")
    for _ in range(3):
        clients.transact(producer, topic, ["x"])
    group = f"{topic}-scaled"
    read = clients.consume(lacuna_cluster.bootstrap, topic, 3)
    clients.commit(lacuna_cluster.bootstrap, group, topic, read[-1][0] + 1)
    admin = AdminClient({"bootstrap.servers": lacuna_cluster.bootstrap})
    place = TopicPartition(topic, 0)
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    newest = admin.list_offsets({place: latest})[place].result(60).offset
    asked = ConsumerGroupTopicPartitions(group, [place])
    (committed,) = admin.list_consumer_group_offsets([asked])[group].result(60).topic_partitions
    assert newest - committed.offset == 0


def test_profiles_name_clusters(
    lacuna: Command, refused: Refusal, lacuna_cluster: Cluster, lacuna_topic: NewTopic
) -> None:
    topic = lacuna_topic()
    for name, address in (("prod", lacuna_cluster.bootstrap), ("dev", "127.0.0.1:1")):
        assert f"set {name}: {address}" in lacuna("profile", "set", name, "-b", address).out
    assert lacuna("profile", "use", "prod").out == "using prod\n"
    assert [topic] == [row[0] for row in lacuna("topics", "list").rows if row[0] == topic]
    asked = refused("topics", "delete", topic)
    assert asked.startswith(f"[prod] Delete {topic} and all its records?")
    assert "no agent answers at 127.0.0.1:1" in refused("--profile", "dev", "topics", "list")
    assert "no agent answers at 127.0.0.1:2" in refused("topics", "list", "-b", "127.0.0.1:2")
    used = {row[0]: row for row in lacuna("config", "topics", "list").rows}
    assert used["--bootstrap"][-2:] == [lacuna_cluster.bootstrap, "profile prod"]
    rows = json.loads(lacuna("profile", "list", "--json").out)
    assert [(row["profile"], row["current"]) for row in rows] == [("dev", False), ("prod", True)]
    assert "did you mean prod?" in refused("profile", "use", "prd")
    assert "did you mean dev?" in refused("--profile", "devs", "topics", "list")
    assert lacuna("profile", "delete", "prod").out == "deleted prod\n"
    assert lacuna("profile", "use").out == "using no profile\n"
    assert "cannot be the name" in refused("profile", "set", "current", "-b", "a")


def tasks() -> list[list[str]]:
    """Return the commands in docs/tasks.md, without `lacuna`."""
    rows = (ROOT / "docs" / "tasks.md").read_text().splitlines()
    cells = [row.split("|")[2].strip() for row in rows if row.startswith("| ")]
    return [shlex.split(cell.strip("`"))[1:] for cell in cells if cell.startswith("`lacuna ")]


def test_every_command_with_json_has_its_fields_in_the_documentation() -> None:
    shown = {
        context.command_path.removeprefix("lacuna ")
        for context in contexts()
        if any(each.name == "as_json" for each in context.command.params)
    }
    documented = {name for name in shown if json_fields(name.split())}
    reports = {"consume", "controlplane status", "export", "import", "judge"}
    assert shown - documented - reports == set()


@pytest.mark.slow
def test_every_task_needs_the_bootstrap_address_alone(lacuna: Command, tmp_path: Path) -> None:
    """Runs the commands in docs/tasks.md in order against one `lacuna up`."""
    (tmp_path / "alice.password").write_text("secret")
    (tmp_path / "records.jsonl").write_text('{"key": "order-7", "value": {"total": 3}}\n')
    commands = tasks()
    assert len(commands) >= 25
    options = ("--authorizer", "--super-user", "User:ANONYMOUS")
    with ForkedCluster(tmp_path / "data", options) as up:
        clients.send(clients.plain(up.bootstrap), "orders", ["x"] * 12)
        clients.commit(up.bootstrap, "billing", "orders", 3)
        _shop = clients.opened(up.bootstrap, "shop", "orders", ["open"])
        failed = {}
        for command in commands:
            documented = json_fields(command)
            json_option = ["--json"] if documented else []
            ran = lacuna(*command, *json_option, "-b", up.bootstrap)
            if ran.code and not (command == ["status"] and ran.problems_of_cluster == []):
                failed[shlex.join(command)] = (ran.code, ran.err)
            elif documented:
                assert fields_of(json.loads(ran.out)) <= documented, command
        assert failed == {}


def json_fields(command: list[str]) -> set[str]:
    """Return the fields of a command's JSON, and the names of its tables, as docs/commands.md lists them."""
    for row in (ROOT / "docs" / "commands.md").read_text().splitlines():
        cells = row.split("|")
        if len(cells) == 4 and cells[1].strip().startswith("`lacuna "):
            name = shlex.split(cells[1].strip().strip("`"))[1:]
            if name == command[: len(name)]:
                return set(re.findall(r"`(\w+)`", cells[2]))
    return set()


def fields_of(value: Any) -> set[str]:
    """Return all names in a command's JSON."""
    if isinstance(value, list):
        return set().union(*map(fields_of, value))
    if isinstance(value, dict):
        return {*value, *fields_of([each for each in value.values() if isinstance(each, list)])}
    return set()
