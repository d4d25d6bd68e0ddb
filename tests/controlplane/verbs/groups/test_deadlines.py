"""Tests sessions, rebalance timeouts and retention: what time alone ends, and what outlives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.controlplane.verbs.groups.conftest import Play

TWO_STABLE = """
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b old        -> b: waits
    join a            -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
    sync b            -> b: waits
    sync a a=A b=B    -> a: synced A | b: synced B
"""


def test_a_silent_member_is_out_after_its_session(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    after 9999ms      ->
    heartbeat a       -> a: ok
    after 1ms         ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    heartbeat b       -> b: UNKNOWN_MEMBER_ID
    join a            -> a: gen=3 range leader=a of a
    """
    )


def test_all_members_silent_leave_an_empty_group(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    after 10s         ->
    describe          -> Empty
    """
    )


def test_a_commit_keeps_the_session(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    after 9s          ->
    commit a t-0@1    -> a: ok
    heartbeat b       -> b: ok
    after 9s          ->
    describe          -> Stable range a=A b=B
    """
    )


def test_who_waits_to_join_needs_no_heartbeat(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b protocols=range:x -> b: waits
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    join a            -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    after 9s          ->
    heartbeat b       -> b: ok
    """
    )


def test_who_waits_to_sync_needs_no_heartbeat(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a            -> a: waits
    join b            -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync b            -> b: waits
    after 9s          ->
    heartbeat a       -> a: ok
    after 9s          ->
    sync a a=A b=B    -> a: synced A | b: synced B
    after 9s          ->
    heartbeat b       -> b: ok
    """
    )


def test_a_rebalance_goes_on_without_who_does_not_join_in_time(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c old        -> c: waits
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    join b            -> b: waits
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          ->
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    after 9s          -> b: gen=3 range leader=b of b,c | c: gen=3 range leader=b
    heartbeat a       -> a: UNKNOWN_MEMBER_ID
    """
    )


def test_a_silent_member_does_not_hold_up_a_rebalance(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c old        -> c: waits
    join b            -> b: waits
    after 10s         -> b: gen=3 range leader=b of b,c | c: gen=3 range leader=b
    """
    )


def test_one_answered_by_the_end_of_anothers_session_has_a_new_one(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join b protocols=range:x -> b: waits
    after 10s         -> b: gen=3 range leader=b of b
    after 9s          ->
    heartbeat b       -> b: ok
    """
    )


def test_an_id_that_was_given_out_outlives_the_members(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c session=60s -> c: MEMBER_ID_REQUIRED
    after 10s         ->
    describe          -> PreparingRebalance
    after 49s         ->
    join c            -> c: gen=3 range leader=c of c
    """
    )


def test_a_leader_that_never_assigns_is_out(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a rebalance=15s -> a: waits
    join b protocols=range rebalance=15s -> b: gen=3 range leader=a
                          | a: gen=3 range leader=a of a,b
    sync b            -> b: waits
    after 9s          ->
    heartbeat a       -> a: ok
    after 9s          -> b: REBALANCE_IN_PROGRESS
    heartbeat a       -> a: UNKNOWN_MEMBER_ID
    join b            -> b: gen=4 range leader=b of b
    """
    )


def test_a_follower_that_never_asks_for_its_assignment_is_out(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a rebalance=15s -> a: waits
    join b rebalance=15s -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync a a=A b=B    -> a: synced A
    after 9s          ->
    heartbeat a       -> a: ok
    heartbeat b       -> b: ok
    after 9s          ->
    heartbeat b       -> b: UNKNOWN_MEMBER_ID
    join a            -> a: gen=4 range leader=a of a
    """
    )


def test_a_pending_member_that_never_joins_holds_up_a_rebalance_for_its_session_only(
    play: Play,
) -> None:
    play(
        TWO_STABLE
        + """
    join c            -> c: MEMBER_ID_REQUIRED
    join a            -> a: waits
    join b            -> b: waits
    after 10s         -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    join c            -> c: UNKNOWN_MEMBER_ID
    """
    )


def test_a_new_member_whose_join_waits_too_long_is_let_go(play: Play) -> None:
    play(
        """
    join a old session=30min rebalance=30min -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b old        -> b: waits
    after 5min        -> b: UNKNOWN_MEMBER_ID
    join a            -> a: waits
    """.replace("a: waits", "a: gen=2 range leader=a of a")
    )


def test_everybody_leaving_while_a_new_id_is_out_ends_the_rebalance(play: Play) -> None:
    play(
        """
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b            -> b: MEMBER_ID_REQUIRED
    leave a           -> left: ok
    join b type=other protocols=x -> b: waits
    after 1ms         -> b: gen=2 x leader=b of b
    """.replace("b: waits\n    after 1ms         -> ", "")
    )


def test_stable_groups_go_on_after_a_restart_with_full_sessions(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    restart           ->
    after 1h          ->
    after 9s          ->
    heartbeat a       -> a: ok
    describe          -> Stable range a=A b=B
    after 9s          ->
    heartbeat b       -> b: UNKNOWN_MEMBER_ID
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    """
    )


def test_a_snapshot_keeps_a_stable_group(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    restart_from_snapshot ->
    heartbeat a       -> a: ok
    heartbeat b       -> b: ok
    sync b            -> b: synced B
    """
    )


def test_an_emptied_group_stays_empty_after_a_restart(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    leave a b         -> left: ok,ok
    restart           ->
    describe          -> Empty
    join c old        -> c: gen=4 range leader=c of c
    """
    )


def test_a_rebalance_under_way_at_a_restart_begins_anew(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join a            -> a: waits
    join b            -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    sync b            -> b: waits
    restart           ->
    sync b            -> b: ILLEGAL_GENERATION
    join b protocols=range:x -> b: waits
    join a            -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """
    )


def test_a_static_replacement_outlives_a_restart(play: Play) -> None:
    bench = play("""
    join a old instance=i -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    """)
    old_id = bench.member_ids["a"]
    bench.run("join a fresh instance=i")
    bench.run("restart")
    assert bench.run(f"heartbeat x id={old_id} instance=i") == "x: FENCED_INSTANCE_ID"
    assert bench.run("heartbeat a instance=i") == "a: ok"


def test_offsets_of_an_empty_group_expire_after_seven_days(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    commit a t-0@1    -> a: ok
    leave a b         -> left: ok,ok
    after 6d          ->
    fetch all         -> t-0@1
    after 1d          ->
    fetch all         ->
    describe          -> Dead GROUP_ID_NOT_FOUND
    """
    )


def test_the_seven_days_begin_when_the_group_becomes_empty(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    commit a t-0@1    -> a: ok
    after 1ms         ->
    after 8d          ->
    describe          -> Empty
    fetch all         -> t-0@1
    after 7d          ->
    fetch all         ->
    """
    )


@pytest.mark.slow
def test_offsets_of_a_group_with_members_stay(play: Play) -> None:
    play(
        """
    join a old session=30min -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    commit a t-0@1    -> a: ok
    """
        + "after 29min ->\nheartbeat a -> a: ok\n" * 400
        + "fetch all -> t-0@1"
    )


def test_standalone_offsets_expire_each_after_its_own_seven_days(play: Play) -> None:
    play("""
    commit x t-0@1    -> x: ok
    after 3d          ->
    commit x t-1@1    -> x: ok
    after 4d          ->
    fetch all         -> t-1@1
    describe          -> Empty
    after 3d          ->
    fetch all         ->
    list              ->
    """)


def test_a_pending_offset_keeps_its_group(play: Play) -> None:
    play("""
    commit x t-0@1    -> x: ok
    txn_commit x 7 t-0@2 -> x: ok
    after 8d          ->
    fetch all         -> t-0@1
    end 7 abort       ->
    after 1d          ->
    list              ->
    """)


def test_a_group_with_only_pending_offsets_is_not_deleted(play: Play) -> None:
    play("""
    txn_commit x 7 t-0@2 -> x: ok
    after 8d          ->
    list              -> g:Empty::classic
    end 7 commit      ->
    fetch all         -> t-0@2
    """)


def test_a_group_that_an_id_was_given_for_is_not_deleted_under_it(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    leave a b         -> left: ok,ok
    after 9min        ->
    join c session=30min -> c: MEMBER_ID_REQUIRED
    after 10min       ->
    join c            -> c: gen=4 range leader=c of c
    """
    )
