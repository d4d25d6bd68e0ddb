"""Tests DescribeGroups, ListGroups and DeleteGroups, and group configs (KIP-848, S26)."""

from __future__ import annotations

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import (
    GROUP_CONFIGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
)
from lacuna.controlplane.shared.topic_configs import APPEND, DELETE, SET, SUBTRACT
from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.groups.states import TRANSITIONS, GroupState, IllegalTransitionError
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs, DescribeGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from tests.controlplane.verbs.groups.conftest import play
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench

SCRIPTS = {
    "list filters by state and type": """
        join a old        -> a: gen=1 range leader=a of a
        commit x group=h t-0@1 -> x: ok
        list              -> g:CompletingRebalance:consumer:classic h:Empty::classic
        list states=empty -> h:Empty::classic
        list states=CompletingRebalance,Empty -> g:CompletingRebalance:consumer:classic h:Empty::classic
        list states=Gone  ->
        list types=classic states=EMPTY -> h:Empty::classic
        list types=consumer ->
    """,
    "only a group without members is deleted": """
        join a old        -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        commit a t-0@1    -> a: ok
        delete g h        -> NON_EMPTY_GROUP,GROUP_ID_NOT_FOUND
        leave a           -> left: ok
        delete g g        -> ok,GROUP_ID_NOT_FOUND
        fetch all         ->
        describe g        -> Dead GROUP_ID_NOT_FOUND
        join a fresh old  -> a: gen=1 range leader=a of a
    """,
    "deleting a group drops its pending offsets": """
        txn_commit x 7 t-0@1 -> x: ok
        txn_commit x 7 group=h t-0@2 -> x: ok
        delete g          -> ok
        end 7 commit      ->
        list              -> h:Empty::classic
    """,
    "describe shows the member of an empty restart": """
        join a old        -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        restart           ->
        describe          -> Stable range a=A
    """,
    "offsets of a partition that is not there are refused": """
        commit x t-99@1 t-100@1 -> x: ok,UNKNOWN_TOPIC_OR_PARTITION
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_groups_are_listed_described_and_deleted(script: str) -> None:
    play(script)


@pytest.mark.parametrize("source", GroupState)
@pytest.mark.parametrize("target", GroupState)
def test_only_listed_transitions_happen(source: GroupState, target: GroupState) -> None:
    group = LiveGroup(group_id="g", state=source)
    if target in TRANSITIONS[source]:
        group.transition_to(target)
        assert group.state is target
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {source} to {target}"):
            group.transition_to(target)


def test_a_record_of_a_later_version_is_not_passed_over() -> None:
    with pytest.raises(machine.LaterFormatError, match="does not know"):
        machine.replay(machine.State(), JournalRecord(group=GroupRecord()))


def alter(
    bench: ConsumerBench,
    *changes: tuple[str, int, str],
    group_id: str = "g",
    validate_only: bool = False,
    replaces_all: bool = False,
) -> tuple[str, str]:
    """Alter a group's configs. Return the name of the error and its message."""
    command = AlterGroupConfigs(
        group_id=group_id,
        changes=[ConfigChange(name=n, operation=o, value=v) for n, o, v in changes],
        validate_only=validate_only,
        replaces_all=replaces_all,
    )
    reply = bench.ask(Command(alter_group_configs=command))
    answer = reply.group_configs_altered
    return ErrorCode(answer.error_code).name, answer.error_message


def described(bench: ConsumerBench, *group_ids: str) -> dict[str, dict[str, str]]:
    """Return the configs that are set, by group. Without ids, include all groups."""
    command = DescribeGroupConfigs(group_ids=group_ids, all_groups=not group_ids)
    reply = bench.ask(Command(describe_group_configs=command))
    return {each.group_id: dict(each.configs) for each in reply.group_configs_described.groups}


RANGE = " inclusive."


@pytest.mark.parametrize(
    ("name", "operation", "value", "told"),
    [
        (SESSION_TIMEOUT, SET, "44999", RANGE),
        (SESSION_TIMEOUT, SET, "60001", RANGE),
        (SESSION_TIMEOUT, SET, "0", "Value must be at least 1"),
        (SESSION_TIMEOUT, SET, "", "Not a number of type INT"),
        (HEARTBEAT_INTERVAL, SET, "4999", RANGE),
        (HEARTBEAT_INTERVAL, SET, "15001", RANGE),
        (HEARTBEAT_INTERVAL, SET, "99999999999", "Not a number of type INT"),
        ("streams.unknown.timeout.ms", SET, "50000", "Unknown group config name"),
        ("share.auto.offset.reset", SET, "none", "must be either 'earliest', 'latest'"),
        ("share.auto.offset.reset", SET, "by_duration:1h", "must be either 'earliest', 'latest'"),
        ("share.isolation.level", SET, "dirty", "String must be one of: read_committed"),
        ("share.delivery.count.limit", SET, "11", "must be in the range 2 to 10 inclusive"),
        ("retention.ms", SET, "1", "Unknown group config name"),
        (SESSION_TIMEOUT, APPEND, "50000", "Can't APPEND to key"),
        (SESSION_TIMEOUT, SUBTRACT, "50000", "Can't SUBTRACT to key"),
        (SESSION_TIMEOUT, 9, "50000", "operation 9"),
    ],
)
def test_what_may_not_be_set(name: str, operation: int, value: str, told: str) -> None:
    bench = ConsumerBench()
    alter(bench, (HEARTBEAT_INTERVAL, SET, "6000"))
    error, message = alter(bench, (HEARTBEAT_INTERVAL, DELETE, ""), (name, operation, value))
    assert error in ("INVALID_CONFIG", "INVALID_REQUEST")
    if name != HEARTBEAT_INTERVAL:
        assert told in message
    assert described(bench) == {"g": {HEARTBEAT_INTERVAL: "6000"}}, "all changes or none"
    error, message = alter(bench, (name, operation, value))
    assert (error, told in message) == ("INVALID_CONFIG", True)


def test_both_bounds_may_be_set_and_are_kept_as_they_are_read() -> None:
    bench = ConsumerBench()
    for config in GROUP_CONFIGS.values():
        for _, value in config.bounds.names_of(config.name) if config.bounds else ():
            assert alter(bench, (config.name, SET, f" 0{value} ")) == ("NONE", "")
            assert described(bench)["g"][config.name] == str(value)


def test_what_is_asked_of_one_group_is_not_of_another() -> None:
    bench = ConsumerBench()
    assert alter(bench, (SESSION_TIMEOUT, SET, "50000"), group_id="") == (
        "INVALID_REQUEST",
        "Default group resources are not allowed.",
    )
    alter(bench, (SESSION_TIMEOUT, SET, "50000"), group_id="one")
    alter(bench, (SESSION_TIMEOUT, SET, "60000"), group_id="two")
    assert described(bench) == {
        "one": {SESSION_TIMEOUT: "50000"},
        "two": {SESSION_TIMEOUT: "60000"},
    }
    assert described(bench, "two", "nobody", "two") == {"two": {SESSION_TIMEOUT: "60000"}}


def test_checking_alone_sets_nothing_and_replacing_takes_away() -> None:
    bench = ConsumerBench()
    alter(bench, (SESSION_TIMEOUT, SET, "50000"))
    alter(bench, (SESSION_TIMEOUT, SET, "60000"), validate_only=True)
    assert described(bench) == {"g": {SESSION_TIMEOUT: "50000"}}
    alter(bench, (HEARTBEAT_INTERVAL, SET, "6000"), replaces_all=True)
    assert described(bench) == {"g": {HEARTBEAT_INTERVAL: "6000"}}
    alter(bench, (HEARTBEAT_INTERVAL, DELETE, ""), ("no.such", DELETE, ""))
    assert described(bench) == {}


def test_s26_a_member_learns_the_interval_and_is_out_after_the_groups_session() -> None:
    bench = ConsumerBench(settings=GroupSettings())
    alter(bench, (SESSION_TIMEOUT, SET, "60000"), (HEARTBEAT_INTERVAL, SET, "15000"))
    bench.run("topic t 2")
    assert bench.run("beat a topics=t") == "a: 2 t:0,1"
    reply, _ = bench.send("a", Command(consumer_group_heartbeat=bench.heartbeat("a", ())))
    assert reply is not None
    assert reply.consumer_group_heartbeat_answered.heartbeat_interval_ms == 15_000
    bench.run("after 59s")
    assert bench.run("state") == "Stable 2/2 a=2:t:0,1"
    for restart in ("restart", "restart_from_snapshot"):
        bench.run(restart)
        bench.run("after 1ms")
        bench.run("after 59s")
        assert bench.run("state") == "Stable 2/2 a=2:t:0,1", (
            "the session began anew, with its length"
        )
    bench.run("after 1s")
    assert bench.run("state") == "Empty 3/3"


def test_a_new_session_timeout_counts_from_the_next_heartbeat_on() -> None:
    bench = ConsumerBench()
    bench.run("topic t 2")
    bench.run("beat a topics=t")
    alter(bench, (SESSION_TIMEOUT, SET, "60000"))
    bench.run("after 40s")
    bench.run("beat a")
    bench.run("after 59s")
    assert bench.run("state") == "Stable 2/2 a=2:t:0,1"
    alter(bench, (SESSION_TIMEOUT, DELETE, ""))
    bench.run("beat a")
    bench.run("after 45s")
    assert bench.run("state") == "Empty 3/3"


def test_configs_outlive_their_group() -> None:
    bench = ConsumerBench()
    alter(bench, (SESSION_TIMEOUT, SET, "50000"))
    bench.run("topic t 2")
    bench.run("beat a topics=t")
    bench.run("bye a")
    assert bench.run("delete g") == "ok"
    assert described(bench) == {"g": {SESSION_TIMEOUT: "50000"}}
    assert bench.groups.group_ids() == set(), "to have configs is not to be a group"
