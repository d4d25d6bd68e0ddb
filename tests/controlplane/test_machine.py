"""Tests the machine's frame: dispatch, foreign journals, malformed commands and purity."""

import ast
from pathlib import Path

import pytest

from lacuna import controlplane
from lacuna.controlplane import machine
from lacuna.controlplane.shared.batches import COMMITTED_BATCH
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.v1.groups_pb2 import GroupProtocol, JoinGroup
from lacuna.controlplane.v1.journal_pb2 import ClusterFounded, JournalRecord
from tests.controlplane.verbs.cluster import Cluster, add_batch
from tests.controlplane.verbs.script import run


def test_every_verb_and_every_event_has_its_function() -> None:
    verbs = {field.name for field in Command.DESCRIPTOR.oneofs_by_name["verb"].fields}
    assert verbs == set(machine.VERBS)
    events = {field.name for field in JournalRecord.DESCRIPTOR.oneofs_by_name["event"].fields}
    kinds = {field.name for field in GroupRecord.DESCRIPTOR.oneofs_by_name["record"].fields}
    assert events - {"group"} | kinds == set(machine.REPLAYS)


def test_a_record_is_replayed_in_the_module_that_writes_it() -> None:
    for event, replay in machine.REPLAYS.items():
        source = Path(replay.__code__.co_filename).read_text()
        assert f"Record({event}=" in source or f"journalled.{event}" in source, event


def test_a_command_without_a_verb_is_answered_with_a_failure() -> None:
    cluster = Cluster()
    decision = machine.handle(cluster.state, Command(command_id=3), cluster.context())
    assert decision.reply is not None
    assert decision.reply.command_id == 3
    assert decision.reply.failure.error_code == ErrorCode.INVALID_REQUEST
    assert decision.records == []


def test_a_journal_is_founded_once_and_with_an_id() -> None:
    cluster = Cluster()
    again = JournalRecord(cluster_founded=ClusterFounded(cluster_id="other"))
    with pytest.raises(ValueError, match="cluster cluster has a second founding record"):
        machine.replay(cluster.state, again)
    with pytest.raises(ValueError, match="a cluster needs an id"):
        machine.found(cluster.state, "", cluster.context())


def test_a_record_of_an_unknown_kind_stops_the_replay() -> None:
    with pytest.raises(machine.LaterFormatError, match="does not know"):
        machine.replay(machine.State(), JournalRecord(now_ms=1))


@pytest.mark.parametrize(
    ("position", "size", "count", "cut"),
    [(64, 100, 0, 0), (64, 0, 1, 0), (-1, 100, 1, 0), (901, 100, 1, 0), (64, 100, 1, 1)],
)
def test_a_malformed_commit_fails_whole(position: int, size: int, count: int, cut: int) -> None:
    cluster = run("topic a 2")
    slices = [cluster.slice(text) for text in ("a-0", "a-1")]
    add_batch(slices[0])
    row = COMMITTED_BATCH.pack(position, size, count, 0, -1, -1, -1, 0)
    slices[1].batches = row[cut:]
    before = machine.snapshot(cluster.state)
    failure = cluster.commit(*slices, size=1000)
    assert failure.error_code == ErrorCode.INVALID_REQUEST
    assert machine.snapshot(cluster.state) == before


def test_two_slices_of_one_partition_are_malformed() -> None:
    cluster = run("topic a 1")
    given = cluster.slice("a-0")
    add_batch(given)
    assert "one slice per partition" in cluster.commit(given, given).message


def test_the_clock_never_goes_back() -> None:
    cluster = Cluster(now_ms=50)
    assert cluster.state.clock_ms == 50
    cluster.now_ms = 70
    cluster.create("a")
    cluster.now_ms = 60
    cluster.create("b")
    assert cluster.state.clock_ms == 70


def test_a_parked_reply_has_no_answer_yet_and_a_later_decision_completes_it() -> None:
    cluster = Cluster()
    join = JoinGroup(
        group_id="g",
        protocol_type="consumer",
        protocols=[GroupProtocol(name="range")],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )
    assert cluster.do("join_group", join).leader  # alone, it leads at once
    context = cluster.context()._replace(token=7)
    decision = machine.handle(cluster.state, Command(join_group=join), context)
    assert decision.reply is None
    cluster.decide(decision)
    cluster.now_ms += 10_000
    ended = cluster.decide(machine.tick(cluster.state, cluster.context()))
    assert [token for token, _ in ended.completions] == [7]
    assert ended.completions[0][1].group_joined.generation_id == 2


def test_equal_histories_give_equal_bytes() -> None:
    table = "topic a 2\ninit x\nput a-0 x1 1/0@0 tv2\noffsets x 1/0 g"
    one, two = run(table), run(table)
    assert machine.snapshot(one.state) == machine.snapshot(two.state)
    assert one.journal == two.journal
    one.do("create_topics", CreateTopics())
    assert machine.snapshot(one.state) == machine.snapshot(two.state)
    one.create("b")
    assert machine.snapshot(one.state) != machine.snapshot(two.state)


BANNED = {"asyncio", "grpc", "time", "random", "secrets", "os", "uuid", "datetime", "threading"}


@pytest.mark.slow
def test_the_machine_imports_nothing_that_is_not_pure() -> None:
    root = Path(controlplane.__file__).parent
    files = [root / "machine.py"]
    for folder in ("shared", "state", "verbs"):
        files += (root / folder).rglob("*.py")
    assert len(files) > 50
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & BANNED, file
