"""Tests static members (KIP-345), which return with a new id without a rebalance and fence the old id (S26)."""

import pytest

from tests.controlplane.verbs.groups.conftest import play

SCRIPTS = {
    "a static member needs no id first": "join a instance=i -> a: gen=1 range leader=a of a",
    "a follower is back without a rebalance": """
        stable static         ->
        join b fresh instance=j v9 -> b: gen=2 range leader=a
        describe              -> Stable range a=A b=B
        sync b                -> b: synced B
        heartbeat a           -> a: ok
    """,
    "the leader is back and told to skip its assignment": """
        stable static         ->
        join a fresh instance=i v9 -> a: gen=2 range leader=a of a,b skip
        sync a                -> a: synced A
    """,
    "an instance that nobody has is unknown": """
        stable static          ->
        heartbeat a instance=k -> a: UNKNOWN_MEMBER_ID
        leave a@k @k           -> left: UNKNOWN_MEMBER_ID,UNKNOWN_MEMBER_ID
    """,
    "a return with another choice of protocol rebalances": """
        join a old instance=i protocols=range,sticky -> a: gen=1 range leader=a of a
        sync a a=A            -> a: synced A
        join a fresh instance=i protocols=sticky -> a: gen=2 sticky leader=a of a
    """,
    "a return before the assignment rebalances": """
        join a old instance=i -> a: gen=1 range leader=a of a
        join a fresh instance=i -> a: gen=2 range leader=a of a
    """,
    "who waited for the assignment under the old id is fenced": """
        stable static         ->
        join a instance=i     -> a: waits
        join b instance=j     -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync b                -> b: waits
        join b fresh instance=j -> b: waits | b: FENCED_INSTANCE_ID
        join a instance=i     -> a: gen=4 range leader=a of a,b | b: gen=4 range leader=a
    """,
    "who waited to join under the old id is fenced": """
        stable static         ->
        join b instance=j protocols=range:x -> b: waits
        join b fresh instance=j -> b: waits | b: FENCED_INSTANCE_ID
        join a instance=i     -> a: gen=3 range leader=a of a,b | b: gen=3 range leader=a
    """,
    "a return in a rebalance completes it": """
        stable static         ->
        join a instance=i     -> a: waits
        join b fresh instance=j -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
    """,
    "a return before its sync was due keeps the place": """
        stable static         ->
        join a instance=i     -> a: waits
        join b instance=j     -> b: gen=3 range leader=a | a: gen=3 range leader=a of a,b
        sync a a=A b=B        -> a: synced A
        join b fresh instance=j v9 -> b: gen=3 range leader=a
        sync b                -> b: synced B
        after 9s              ->
        heartbeat a           -> a: ok
        heartbeat b           -> b: ok
    """,
    "an operator removes by instance id": """
        stable static         ->
        leave @j              -> left: ok
        join a instance=i     -> a: gen=3 range leader=a of a
    """,
    "a static member that is away stays until its session ends": """
        join a old instance=i session=120s rebalance=60s -> a: gen=1 range leader=a of a
        sync a a=A            -> a: synced A
        join b old rebalance=60s -> b: waits
        after 60s             -> b: gen=2 range leader=b of a,b
        sync b a=X b=Y        -> b: synced Y
        describe              -> Stable range a=X b=Y
    """,
    "a group of absent static members waits for one of them": """
        join a old instance=i session=120s rebalance=60s -> a: gen=1 range leader=a of a
        sync a a=A            -> a: synced A
        join b instance=j rebalance=60s -> b: waits
        leave @j              -> left: ok | b: UNKNOWN_MEMBER_ID
        after 60s             ->
        describe              -> PreparingRebalance a=
        join a instance=i     -> a: gen=2 range leader=a of a
    """,
    # FENCED_INSTANCE_ID would end the client for good.
    "a restart before the next generation keeps the new id": """
        stable static         ->
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
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_static_members(script: str) -> None:
    play(script)


def test_before_v9_the_leader_does_not_learn_that_it_leads() -> None:
    bench = play("stable static")
    old_id = bench.member_ids["a"]
    assert bench.run("join a fresh instance=i") == "a: gen=2 range leader=a"
    assert bench.member_ids["a"] != old_id
    assert bench.run("sync a") == "a: synced A"


def test_the_old_id_is_fenced() -> None:
    bench = play("stable static")
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
