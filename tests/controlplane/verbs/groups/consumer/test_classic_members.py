"""Tests members with both protocols in one group: upgrades, downgrades, and the responses to each (S26, KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.verbs.groups.consumer import embedded
from tests.controlplane.verbs.groups.conftest import follow
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench, parsed, subscription

ALL = {"t": frozenset(range(4))}


CLASSIC = """
    topic t 4
    cjoin c old           -> c: gen=1 range leader=c of c
    assign                -> c: synced t:0,1,2,3
"""
MIXED = f"""
    {CLASSIC.strip()}
    beat a topics=t       -> a: 2 -
    state                 -> Reconciling 2/2 a=2:- c=1:t:0,1,2,3
    cbeat c               -> c: REBALANCE_IN_PROGRESS
    csync c               -> c: REBALANCE_IN_PROGRESS
    cjoin c               -> c: gen=1 range leader=
    cbeat c               -> c: REBALANCE_IN_PROGRESS
    csync c               -> c: synced t:0,1
    cjoin c               -> c: gen=2 range leader=
    cbeat c               -> c: ok
    csync c               -> c: synced t:0,1
    beat a                -> a: 2 t:2,3
    state                 -> Stable 2/2 a=2:t:2,3 c=2:t:0,1
"""


@dataclass
class ClassicBench(ConsumerBench):
    """Like ConsumerBench. In a `stable classic` group, c has all of t; in a `stable mixed` one, a has joined it."""

    stable: ClassVar[Mapping[str, str]] = {"classic": CLASSIC, "mixed": MIXED}

    def do_assign(self) -> str:
        """Give c, the leader, all partitions of t."""
        member_id = self.member_ids["c"]
        given = g.MemberAssignment(
            member_id=member_id, assignment=embedded.write_assignment(ALL, 1)
        )
        sync = g.SyncGroup(group_id="g", generation_id=1, member_id=member_id, assignments=[given])
        return self.told("c", self.send("c", Command(sync_group=sync)))


def play(script: str) -> ClassicBench:
    return follow(ClassicBench(), script)


def test_an_upgrade_goes_on_with_what_everybody_has() -> None:
    bench = play("stable mixed")
    bench.check_every_prefix()


SCRIPTS = {
    "a downgrade when the last new member leaves": """
        stable mixed
        bye a                 -> a: -1
        state                 -> GROUP_ID_NOT_FOUND
        describe              -> PreparingRebalance c=
        cbeat c               -> c: REBALANCE_IN_PROGRESS
        cjoin c               -> c: gen=3 range leader=c of c
        list                  -> g:CompletingRebalance:consumer:classic
    """,
    "a downgrade when its session ends": """
        stable mixed
        after 9s
        cbeat c               -> c: ok
        after 9s
        cbeat c               -> c: ok
        after 9s
        cbeat c               -> c: ok
        after 9s
        cbeat c               -> c: ok
        after 9s
        cbeat c               -> c: REBALANCE_IN_PROGRESS
        list                  -> g:PreparingRebalance:consumer:classic
    """,
    "a restart in the middle": """
        stable mixed
        restart
        cbeat c               -> c: ok
        beat a                -> a: 2 t:2,3
        restart_from_snapshot
        csync c               -> c: synced t:0,1
        after 9s
        cbeat c               -> c: ok
        after 11s
        state                 -> Assigning 3/2 a=2:t:2,3
        cbeat c               -> c: UNKNOWN_MEMBER_ID
        beat a                -> a: 3 t:0,1,2,3
    """,
    "what a classic member is refused": """
        stable mixed
        cbeat c gen=7         -> c: ILLEGAL_GENERATION
        cbeat x gen=2 id=nobody -> x: UNKNOWN_MEMBER_ID
        heartbeat x gen=2 id=a -> x: UNKNOWN_MEMBER_ID
        csync c protocol=other -> c: INCONSISTENT_GROUP_PROTOCOL
        csync c type=other    -> c: INCONSISTENT_GROUP_PROTOCOL
        cjoin c protocols=other -> c: INCONSISTENT_GROUP_PROTOCOL
        cjoin c type=connect  -> c: INCONSISTENT_GROUP_PROTOCOL
        cjoin c bad           -> c: INCONSISTENT_GROUP_PROTOCOL
        cjoin d               -> d: MEMBER_ID_REQUIRED
        cjoin d instance=i id=x -> d: UNKNOWN_MEMBER_ID
        commit c gen=1 t-2@1  -> c: ILLEGAL_GENERATION
        commit c gen=1 t-0@1  -> c: ok
        commit c gen=2 t-0@1  -> c: ok
    """,
    "a static member changes its protocol and back": """
        topic t 2
        beat a topics=t instance=i -> a: 2 t:0,1
        cjoin c old instance=i -> c: gen=2 range leader=
        list                  -> g:Stable:consumer:classic
        csync c               -> c: synced t:0,1
        beat b topics=t instance=i -> b: 3 t:0,1
        list                  -> g:Stable:consumer:consumer
        cbeat c instance=i    -> c: FENCED_INSTANCE_ID
    """,
    "an empty group is what the next one makes it": """
        stable classic
        leave c               -> left: ok
        commit x t-0@3        -> x: ok
        beat a topics=t       -> a: 2 t:0,1,2,3
        fetch all             -> t-0@3
        bye a                 -> a: -1
        cjoin d old           -> d: gen=1 range leader=d of d
        fetch all             -> t-0@3
    """,
    "a classic group keeps what it reads longer than its client asks": """
        topic t 4
        topic u 1
        cjoin c old session=30min -> c: gen=1 range leader=c of c
        assign                -> c: synced t:0,1,2,3
        after 1s              ->
        commit c keep=1min t-0@1 u-0@1 -> c: ok,ok
        after 10min           ->
        fetch all             -> t-0@1
    """,
    # The cluster's retention counts from the moment at which the group became empty.
    "the retention of a client counts from the commit": """
        topic t 4
        cjoin c old session=30min -> c: gen=1 range leader=c of c
        assign                -> c: synced t:0,1,2,3
        after 1s              ->
        commit c keep=25min t-0@1 -> c: ok
        after 20min           ->
        leave c               -> left: ok
        fetch all             -> t-0@1
        after 10min           ->
        fetch all             ->
    """,
    "a group of others is not upgraded": """
        topic t 1
        join c old type=connect -> c: gen=1 range leader=c of c
        beat a topics=t       -> a: GROUP_ID_NOT_FOUND
        delete_offsets t-0    -> NON_EMPTY_GROUP
    """,
    "a group that cannot be read is not upgraded": """
        topic t 1
        join c old protocols=range:x -> c: gen=1 range leader=c of c
        beat a topics=t       -> a: GROUP_ID_NOT_FOUND
        list                  -> g:CompletingRebalance:consumer:classic
        delete_offsets t-0    -> GROUP_SUBSCRIBED_TO_TOPIC
    """,
    # Classic members have the bound of a classic group, so that a group can convert in both directions.
    # 64 and 5 bytes for a protocol, 17 for a subscription of one topic; 13 for what a says.
    "what all members say of themselves has a bound": """
        given group_metadata_max_bytes=99
        topic t 1
        cjoin c old           -> c: gen=1 range leader=c of c
        beat a topics=t       -> a: 2 t:0
        cjoin d old           -> d: GROUP_MAX_SIZE_REACHED
        beat a topics=t,u     -> a: GROUP_MAX_SIZE_REACHED
        bye a                 -> a: -1
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_classic_members(script: str) -> None:
    play(script).check_every_prefix()


def test_who_is_told_to_join_and_does_not_is_out() -> None:
    bench = play("stable classic")
    follow(
        bench,
        """
    beat a topics=t       -> a: 2 -
    cbeat c               -> c: REBALANCE_IN_PROGRESS
    """,
    )
    for _ in range(7):
        bench.run("after 9s")
        bench.run("beat a")
        told = bench.run("cbeat c")
    assert told == "c: UNKNOWN_MEMBER_ID"


def test_who_joins_and_does_not_sync_is_out() -> None:
    bench = play("topic t 2\nbeat a topics=t -> a: 2 t:0,1\ncjoin c old -> c: gen=3 range leader=")
    for _ in range(7):
        bench.run("after 9s")
        bench.run("beat a owned")
        told = bench.run("cbeat c")
    assert told == "c: UNKNOWN_MEMBER_ID"


def test_members_leave_by_either_name() -> None:
    bench = play("stable mixed")
    bench.member_ids |= {"a": "a"}
    follow(
        bench,
        """
    leave nobody          -> left: UNKNOWN_MEMBER_ID
    leave c c a           -> left: ok,UNKNOWN_MEMBER_ID,ok
    state                 -> Empty 3/3
    cjoin e old           -> e: gen=1 range leader=e of e
    list                  -> g:CompletingRebalance:consumer:classic
    """,
    )


def test_a_downgrade_when_all_new_members_leave_at_once() -> None:
    bench = play("stable mixed")
    bench.member_ids |= {"a": "a", "b": "b"}
    follow(
        bench,
        """
    beat b topics=t       -> b: 3 -
    leave a b             -> left: ok,ok
    describe              -> PreparingRebalance c=
    """,
    )
    bench.check_every_prefix()


def test_an_operator_takes_out_a_consumer_by_leave_group() -> None:
    bench = play("stable mixed")
    bench.member_ids |= {"a": "a"}
    follow(
        bench,
        """
    leave a               -> left: ok
    list                  -> g:PreparingRebalance:consumer:classic
    """,
    )


@pytest.mark.slow
def test_offsets_of_topics_that_a_classic_group_no_longer_reads_expire() -> None:
    """As in Kafka, they expire a week after their commit. The others are kept while it has members."""
    bench = play("""
    topic t 4
    topic u 1
    commit x t-0@1 u-0@1 -> x: ok,ok
    cjoin c old session=30min -> c: gen=1 range leader=c of c
    assign -> c: synced t:0,1,2,3
    """)
    for _ in range(400):
        bench.run("after 29min")
        assert bench.run("heartbeat c") == "c: ok"
    assert bench.run("fetch all") == "t-0@1"
    assert bench.run("list") == "g:Stable:consumer:classic"


def test_who_waits_in_a_classic_group_is_sent_to_join_the_new_one() -> None:
    bench = play("stable classic")
    bench.run("cjoin d old")
    assert bench.run("beat a topics=t") == "a: 2 - | d: REBALANCE_IN_PROGRESS"
    assert bench.run("cjoin d id=" + bench.member_ids["d"]).startswith("d: gen=")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 7])
def test_every_version_of_the_embedded_protocol(version: int) -> None:
    follow(
        play("topic t 1\nbeat a topics=t -> a: 2 t:0"),
        f"""
    cjoin c old version={version} -> c: gen=3 range leader=
    bye a                 -> a: -1
    list                  -> g:PreparingRebalance:consumer:classic
    """,
    )


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_subscription_that_is_cut_is_an_error(cut: int) -> None:
    whole = subscription(["topic"], parsed("t:0,1"), 3)
    with pytest.raises(embedded.MalformedProtocolError):
        embedded.read_subscription(whole[:-cut])


def test_lies_in_the_embedded_protocol() -> None:
    for data in (b"\xff\xff\0\0\0\0", b"\0\1\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\1\xff", b"\0"):
        with pytest.raises(embedded.MalformedProtocolError):
            embedded.read_subscription(data)
    with pytest.raises(embedded.MalformedProtocolError):
        embedded.read_assignment(b"\xff\xff\0\0\0\0")
    assert embedded.read_assignment(b"") == {}
    written = embedded.write_assignment(ALL, 9)
    assert written[:2] == b"\0\3"
    assert embedded.read_assignment(written) == ALL


def test_subscriptions_are_read_once_however_many_offsets_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = play("stable classic")
    read: list[bytes] = []

    def read_and_count(data: bytes) -> embedded.EmbeddedSubscription:
        read.append(data)
        return read_subscription(data)

    read_subscription = embedded.read_subscription
    monkeypatch.setattr(embedded, "read_subscription", read_and_count)
    places = " ".join(f"t-{each}" for each in range(100))
    assert bench.run(f"delete_offsets {places}") == ",".join(["GROUP_SUBSCRIBED_TO_TOPIC"] * 100)
    members = bench.groups.live.groups[bench.group_id].members.values()
    assert len(read) == sum(len(each.protocols) for each in members) > 0
