"""Tests sessions, rebalance timeouts and retention: what ends through time alone, and what survives a restart."""

import pytest

from tests.controlplane.verbs.groups.conftest import play

SCRIPTS = {
    "a silent member is out after its session": """
        stable            ->
        after 9999ms      ->
        heartbeat a       -> a: ok
        after 1ms         ->
        heartbeat a       -> a: REBALANCE_IN_PROGRESS
        heartbeat b       -> b: UNKNOWN_MEMBER_ID
        join a            -> a: gen=3 range leader=a of a
    """,
    "all members silent leave an empty group": """
        stable            ->
        after 10s         ->
        describe          -> Empty
    """,
    "a commit keeps the session": """
        stable            ->
        after 9s          ->
        commit a t-0@1    -> a: ok
        heartbeat b       -> b: ok
        after 9s          ->
        describe          -> Stable range a=A b=B
    """,
    "who waits to join needs no heartbeat": """
        stable            ->
        join b protocols=range:x -> b: waits
        after 9s          ->
        heartbeat a       -> a: REBALANCE_IN_PROGRESS
        after 9s          ->
        join a            -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
        after 9s          ->
        heartbeat b       -> b: ok
    """,
    "who waits to sync needs no heartbeat": """
        stable            ->
        join a            -> a: waits
        join b            -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync b            -> b: waits
        after 9s          ->
        heartbeat a       -> a: ok
        after 9s          ->
        sync a a=A b=B    -> a: synced A | b: synced B
        after 9s          ->
        heartbeat b       -> b: ok
    """,
    "a rebalance goes on without who does not join in time": """
        stable            ->
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
    """,
    "a silent member does not hold up a rebalance": """
        stable            ->
        join c old        -> c: waits
        join b            -> b: waits
        after 10s         -> b: gen=3 range leader=b of b,c | c: gen=3 range leader=b
    """,
    "one answered by the end of anothers session has a new one": """
        stable            ->
        join b protocols=range:x -> b: waits
        after 10s         -> b: gen=3 range leader=b of b
        after 9s          ->
        heartbeat b       -> b: ok
    """,
    "an id that was given out outlives the members": """
        stable            ->
        join c session=60s -> c: MEMBER_ID_REQUIRED
        after 10s         ->
        describe          -> PreparingRebalance
        after 49s         ->
        join c            -> c: gen=3 range leader=c of c
    """,
    "a leader that never assigns is out": """
        stable            ->
        join a rebalance=15s -> a: waits
        join b protocols=range rebalance=15s -> b: gen=3 range leader=a
                              | a: gen=3 range leader=a of a,b
        sync b            -> b: waits
        after 9s          ->
        heartbeat a       -> a: ok
        after 9s          -> b: REBALANCE_IN_PROGRESS
        heartbeat a       -> a: UNKNOWN_MEMBER_ID
        join b            -> b: gen=4 range leader=b of b
    """,
    "a follower that never asks for its assignment is out": """
        stable            ->
        join a rebalance=15s -> a: waits
        join b rebalance=15s -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync a a=A b=B    -> a: synced A
        after 9s          ->
        heartbeat a       -> a: ok
        heartbeat b       -> b: ok
        after 9s          ->
        heartbeat b       -> b: UNKNOWN_MEMBER_ID
        join a            -> a: gen=4 range leader=a of a
    """,
    "a pending member that never joins holds up a rebalance for its session only": """
        stable            ->
        join c            -> c: MEMBER_ID_REQUIRED
        join a            -> a: waits
        join b            -> b: waits
        after 10s         -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
        join c            -> c: UNKNOWN_MEMBER_ID
    """,
    "a snapshot keeps a stable group": """
        stable            ->
        restart_from_snapshot ->
        heartbeat a       -> a: ok
        heartbeat b       -> b: ok
        sync b            -> b: synced B
    """,
    "a new member whose join waits too long is let go": """
        join a old session=30min rebalance=30min -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        join b old        -> b: waits
        after 5min        -> b: UNKNOWN_MEMBER_ID
        join a            -> a: gen=2 range leader=a of a
    """,
    "everybody leaving while a new id is out ends the rebalance": """
        join a old        -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        join b            -> b: MEMBER_ID_REQUIRED
        leave a           -> left: ok
        join b type=other protocols=x -> b: gen=2 x leader=b of b
    """,
    "an emptied group stays empty after a restart": """
        stable            ->
        leave a b         -> left: ok,ok
        restart           ->
        describe          -> Empty
        join c old        -> c: gen=4 range leader=c of c
    """,
    "a rebalance under way at a restart begins anew": """
        stable            ->
        join a            -> a: waits
        join b            -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync b            -> b: waits
        restart           ->
        sync b            -> b: ILLEGAL_GENERATION
        join b protocols=range:x -> b: waits
        join a            -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """,
    "offsets of an empty group expire after seven days": """
        stable            ->
        commit a t-0@1    -> a: ok
        leave a b         -> left: ok,ok
        after 6d          ->
        fetch all         -> t-0@1
        after 1d          ->
        fetch all         ->
        describe          -> Dead GROUP_ID_NOT_FOUND
    """,
    "the seven days begin when the group becomes empty": """
        stable            ->
        commit a t-0@1    -> a: ok
        after 1ms         ->
        after 8d          ->
        describe          -> Empty
        fetch all         -> t-0@1
        after 7d          ->
        fetch all         ->
    """,
    "standalone offsets expire each after its own seven days": """
        commit x t-0@1    -> x: ok
        after 3d          ->
        commit x t-1@1    -> x: ok
        after 4d          ->
        fetch all         -> t-1@1
        describe          -> Empty
        after 3d          ->
        fetch all         ->
        list              ->
    """,
    "a pending offset keeps its group": """
        commit x t-0@1    -> x: ok
        txn_commit x 7 t-0@2 -> x: ok
        after 8d          ->
        fetch all         -> t-0@1
        end 7 abort       ->
        after 1d          ->
        list              ->
    """,
    "a group with only pending offsets is not deleted": """
        txn_commit x 7 t-0@2 -> x: ok
        after 8d          ->
        list              -> g:Empty::classic
        end 7 commit      ->
        fetch all         -> t-0@2
    """,
    "a group that an id was given for is not deleted under it": """
        stable            ->
        leave a b         -> left: ok,ok
        after 9min        ->
        join c session=30min -> c: MEMBER_ID_REQUIRED
        after 10min       ->
        join c            -> c: gen=4 range leader=c of c
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_deadlines(script: str) -> None:
    play(script)


def test_stable_groups_go_on_after_a_restart_with_full_sessions() -> None:
    play("""
    stable            ->
    restart           ->
    after 1h          ->
    after 9s          ->
    heartbeat a       -> a: ok
    describe          -> Stable range a=A b=B
    after 9s          ->
    heartbeat b       -> b: UNKNOWN_MEMBER_ID
    heartbeat a       -> a: REBALANCE_IN_PROGRESS
    """)


def test_a_static_replacement_outlives_a_restart() -> None:
    bench = play("""
    join a old instance=i -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    """)
    old_id = bench.member_ids["a"]
    bench.run("join a fresh instance=i")
    bench.run("restart")
    assert bench.run(f"heartbeat x id={old_id} instance=i") == "x: FENCED_INSTANCE_ID"
    assert bench.run("heartbeat a instance=i") == "a: ok"


@pytest.mark.slow
def test_offsets_of_a_group_with_members_stay() -> None:
    play(
        """
    join a old session=30min -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    commit a t-0@1    -> a: ok
    """
        + "after 29min ->\nheartbeat a -> a: ok\n" * 400
        + "fetch all -> t-0@1"
    )
