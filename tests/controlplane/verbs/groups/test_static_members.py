"""Tests static members (KIP-345), which return under a new id without a rebalance and fence the old id (S26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.controlplane.verbs.groups.conftest import Bench, Play

STABLE = """
    join a old instance=i -> a: gen=1 range leader=a of a
    sync a a=A            -> a: synced A
    join b instance=j     -> b: waits
    join a instance=i     -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
    sync b                -> b: waits
    sync a a=A b=B        -> a: synced A | b: synced B
"""


def test_a_static_member_needs_no_id_first(play: Play) -> None:
    play("join a instance=i -> a: gen=1 range leader=a of a")


def test_a_follower_is_back_without_a_rebalance(play: Play) -> None:
    play(
        STABLE
        + """
    join b fresh instance=j v9 -> b: gen=2 range leader=a
    describe              -> Stable range a=A b=B
    sync b                -> b: synced B
    heartbeat a           -> a: ok
    """
    )


def test_the_leader_is_back_and_told_to_skip_its_assignment(play: Play) -> None:
    play(
        STABLE
        + """
    join a fresh instance=i v9 -> a: gen=2 range leader=a of a,b skip
    sync a                -> a: synced A
    """
    )


def test_before_v9_the_leader_does_not_learn_that_it_leads(play: Play, bench: Bench) -> None:
    bench = play(STABLE)
    old_id = bench.member_ids["a"]
    assert bench.run("join a fresh instance=i") == "a: gen=2 range leader=a"
    assert bench.member_ids["a"] != old_id
    assert bench.run("sync a") == "a: synced A"


def test_the_old_id_is_fenced(play: Play) -> None:
    bench = play(STABLE)
    old_id = bench.member_ids["b"]
    bench.run("join b fresh instance=j")
    for line in ("heartbeat x", "sync x", "join x"):
        assert bench.run(f"{line} instance=j id={old_id}") == "x: FENCED_INSTANCE_ID"
    assert bench.run(f"commit x instance=j id={old_id} gen=2 t-0@1") == "x: FENCED_INSTANCE_ID"
    assert bench.run(f"txn_commit x 7 instance=j id={old_id} gen=2 t-0@1") == (
        "x: FENCED_INSTANCE_ID"
    )
    assert bench.run(f"heartbeat x id={old_id}") == "x: UNKNOWN_MEMBER_ID"
    bench.member_ids["old"] = old_id
    assert bench.run("leave old@j") == "left: FENCED_INSTANCE_ID"


def test_an_instance_that_nobody_has_is_unknown(play: Play) -> None:
    play(
        STABLE
        + """
    heartbeat a instance=k -> a: UNKNOWN_MEMBER_ID
    leave a@k @k           -> left: UNKNOWN_MEMBER_ID,UNKNOWN_MEMBER_ID
    """
    )


def test_a_return_with_another_choice_of_protocol_rebalances(play: Play) -> None:
    play("""
    join a old instance=i protocols=range,sticky -> a: gen=1 range leader=a of a
    sync a a=A            -> a: synced A
    join a fresh instance=i protocols=sticky -> a: gen=2 sticky leader=a of a
    """)


def test_a_return_before_the_assignment_rebalances(play: Play) -> None:
    play("""
    join a old instance=i -> a: gen=1 range leader=a of a
    join a fresh instance=i -> a: gen=2 range leader=a of a
    """)


def test_who_waited_for_the_assignment_under_the_old_id_is_fenced(play: Play) -> None:
    play(
        STABLE
        + """
    join a instance=i     -> a: waits
    join b instance=j     -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync b                -> b: waits
    join b fresh instance=j -> b: waits | b: FENCED_INSTANCE_ID
    join a instance=i     -> a: gen=4 range leader=a of a,b | b: gen=4 range leader=a
    """
    )


def test_who_waited_to_join_under_the_old_id_is_fenced(play: Play) -> None:
    play(
        STABLE
        + """
    join b instance=j protocols=range:x -> b: waits
    join b fresh instance=j -> b: waits | b: FENCED_INSTANCE_ID
    join a instance=i     -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """
    )


def test_a_return_in_a_rebalance_completes_it(play: Play) -> None:
    play(
        STABLE
        + """
    join a instance=i     -> a: waits
    join b fresh instance=j -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    """
    )


def test_a_return_before_its_sync_was_due_keeps_the_place(play: Play) -> None:
    play(
        STABLE
        + """
    join a instance=i     -> a: waits
    join b instance=j     -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync a a=A b=B        -> a: synced A
    join b fresh instance=j v9 -> b: gen=3 range leader=a
    sync b                -> b: synced B
    after 9s              ->
    heartbeat a           -> a: ok
    heartbeat b           -> b: ok
    """
    )


def test_an_operator_removes_by_instance_id(play: Play) -> None:
    play(
        STABLE
        + """
    leave @j              -> left: ok
    join a instance=i     -> a: gen=3 range leader=a of a
    """
    )


def test_a_static_member_that_is_away_stays_until_its_session_ends(play: Play) -> None:
    play("""
    join a old instance=i session=120s rebalance=60s -> a: gen=1 range leader=a of a
    sync a a=A            -> a: synced A
    join b old rebalance=60s -> b: waits
    after 60s             -> b: gen=2 range leader=b of a,b
    sync b a=X b=Y        -> b: synced Y
    describe              -> Stable range a=X b=Y
    """)


def test_a_group_of_absent_static_members_waits_for_one_of_them(play: Play) -> None:
    play("""
    join a old instance=i session=120s rebalance=60s -> a: gen=1 range leader=a of a
    sync a a=A            -> a: synced A
    join b instance=j rebalance=60s -> b: waits
    leave @j              -> left: ok | b: UNKNOWN_MEMBER_ID
    after 60s             ->
    describe              -> PreparingRebalance a=
    join a instance=i     -> a: gen=2 range leader=a of a
    """)


def test_a_restart_before_the_next_generation_keeps_the_new_id(play: Play) -> None:
    """FENCED_INSTANCE_ID would end the client for good."""
    play(
        STABLE
        + """
    join a fresh instance=i protocols=range:x,other -> a: gen=2 range leader=a
    join b instance=j protocols=range:x -> b: waits
    join a fresh instance=i -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    join b fresh instance=j -> b: waits
    join a instance=i     -> a: gen=4 range leader=a of a,b | b: gen=4 range leader=a
    restart               ->
    heartbeat a instance=i -> a: ILLEGAL_GENERATION
    heartbeat b instance=j -> b: ILLEGAL_GENERATION
    join b instance=j     -> b: gen=2 range leader=a
    describe              -> Stable range a=A b=B
    """
    )
