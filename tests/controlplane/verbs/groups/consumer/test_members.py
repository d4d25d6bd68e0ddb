"""Tests joining, reconciling, leaving and fencing in the consumer protocol, line by line (S26, KIP-848)."""

from __future__ import annotations

import pytest

from tests.controlplane.verbs.groups.consumer.bench import play

SCRIPTS = {
    "a partition is given up before another member gets it": """
        topic t 4
        beat a topics=t       -> a: 2 t:0,1,2,3
        state                 -> Stable 2/2 a=2:t:0,1,2,3
        beat b topics=t       -> b: 3 -
        state                 -> Reconciling 3/3 a=2:t:0,1,2,3 b=3:-
        beat a                -> a: 2 t:0,1
        beat b                -> b: 3
        # it says nothing, then that it still owns all
        beat a                -> a: 2
        beat a owns=t:0,1,2,3 -> a: 2
        beat b                -> b: 3
        beat a owned          -> a: 3
        beat b                -> b: 3 t:2,3
        state                 -> Stable 3/3 a=3:t:0,1 b=3:t:2,3
    """,
    "an answer that got lost is given again": """
        topic t 2
        beat a topics=t       -> a: 2 t:0,1
        beat a topics=t epoch=0 -> a: 2 t:0,1
        beat b topics=t       -> b: 3 -
        beat a                -> a: 2 t:0
        beat a owned          -> a: 3
        beat a owned epoch=2  -> a: 3
        beat a epoch=2 owns=t:0,1 -> a: FENCED_MEMBER_EPOCH
        beat a epoch=2        -> a: FENCED_MEMBER_EPOCH
        beat a epoch=4        -> a: FENCED_MEMBER_EPOCH
        beat a epoch=0        -> a: FENCED_MEMBER_EPOCH
    """,
    "a member leaves and the others take over": """
        stable                ->
        bye a                 -> a: -1
        state                 -> Assigning 4/3 b=3:t:2,3
        beat b                -> b: 4 t:0,1,2,3
        bye b                 -> b: -1
        state                 -> Empty 5/5
        bye b                 -> b: UNKNOWN_MEMBER_ID
        beat b epoch=4        -> b: UNKNOWN_MEMBER_ID
        beat c topics=t       -> c: 6 t:0,1,2,3
    """,
    "a session ends": """
        stable
        after 30s
        beat a                -> a: 3
        after 16s
        state                 -> Assigning 4/3 a=3:t:0,1
        beat b                -> b: UNKNOWN_MEMBER_ID
        beat a                -> a: 4 t:0,1,2,3
    """,
    "after a restart sessions begin anew": """
        stable
        after 44s
        restart
        after 44s
        state                 -> Stable 3/3 a=3:t:0,1 b=3:t:2,3
        beat a                -> a: 3 t:0,1
        restart_from_snapshot
        after 1s
        beat b                -> b: 3 t:2,3
        after 44s
        state                 -> Stable 3/3 a=3:t:0,1 b=3:t:2,3
        after 2s
        state                 -> Empty 4/4
    """,
    "who does not revoke in time is out": """
        topic t 4
        beat a topics=t       -> a: 2 t:0,1,2,3
        beat b topics=t       -> b: 3 -
        beat a                -> a: 2 t:0,1
        after 40s
        beat a                -> a: 2
        beat b                -> b: 3
        restart
        after 1s
        after 40s
        beat a                -> a: 2 t:0,1
        beat b                -> b: 3 -
        after 21s
        beat a                -> a: UNKNOWN_MEMBER_ID
        beat b                -> b: 4 t:0,1,2,3
    """,
    "a group has a largest size": """
        given group_max_size=1
        topic t 1
        beat a topics=t       -> a: 2 t:0
        beat b topics=t       -> b: GROUP_MAX_SIZE_REACHED
        beat a                -> a: 2
    """,
    # Names take a byte more, plus ids and hosts: 13 bytes with one topic of one letter.
    "what all members say of themselves has a bound": """
        given group_metadata_max_bytes=27
        beat a topics=t       -> a: 2 -
        beat b topics=t       -> b: 3 -
        beat c topics=t       -> c: GROUP_MAX_SIZE_REACHED
        beat b topics=t,u     -> b: GROUP_MAX_SIZE_REACHED
        beat b                -> b: 3
        bye a                 -> a: -1
        beat b topics=t,u     -> b: 5
        beat a topics=        -> a: 6 -
        restart
        beat a topics=t,u,v   -> a: GROUP_MAX_SIZE_REACHED
        beat a                -> a: 6 -
    """,
    "topics appear grow and go": """
        topic t 1
        beat a topics=t,u     -> a: 2 t:0
        topic t 2
        beat a                -> a: 3 t:0,1
        topic u 1
        beat a                -> a: 4 t:0,1+u:0
        topic v 9
        beat a                -> a: 4
        drop t
        beat a                -> a: 4 u:0
        beat a owned          -> a: 5
        beat a topics=v owned -> a: 5 -
        beat a owned          -> a: 6 v:0,1,2,3,4,5,6,7,8
    """,
    "regular expressions match whole names": """
        topic t 1
        topic u 1
        beat a regex=[t-v]    -> a: 2 t:0+u:0
        topic v 1
        topic w 1
        beat a                -> a: 3 t:0+u:0+v:0
        beat a regex= topics=w owned -> a: 3 -
        beat a owned          -> a: 4 w:0
        beat a regex=[        -> a: INVALID_REGULAR_EXPRESSION
        beat a regex=(?=t)t   -> a: INVALID_REGULAR_EXPRESSION
        beat a regex=t        -> a: 5 t:0+w:0
    """,
    "static members come back": """
        topic t 2
        beat a topics=t instance=i -> a: 2 t:0,1
        beat x topics=t instance=i -> x: UNRELEASED_INSTANCE_ID
        beat x instance=i epoch=2  -> x: FENCED_INSTANCE_ID
        beat x instance=j epoch=2  -> x: UNKNOWN_MEMBER_ID
        bye a instance=i for=-2    -> a: -2
        state                      -> Reconciling 2/2 a=-2:t:0,1
        beat x topics=t instance=i -> x: 2 t:0,1
        state                      -> Stable 2/2 x=2:t:0,1
        beat a instance=i epoch=2  -> a: FENCED_INSTANCE_ID
        bye x instance=i           -> x: -1
        state                      -> Empty 3/3
    """,
    "a static member that stays away is out": """
        topic t 2
        beat a topics=t instance=i -> a: 2 t:0,1
        bye a instance=i for=-2    -> a: -2
        after 44s
        state                      -> Reconciling 2/2 a=-2:t:0,1
        after 2s
        state                      -> Empty 3/3
    """,
    "offsets of topics that nobody wants expire": """
        given consumer_session_timeout_ms=2592000000
        topic t 1
        topic u 1
        commit x t-0@1 u-0@1  -> x: ok,ok
        beat a topics=t       -> a: 2 t:0
        after 1s
        after 8d
        fetch all             -> t-0@1
        list                  -> g:Stable:consumer:consumer
        bye a                 -> a: -1
        after 1s
        after 1d
        list                  ->
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_members(script: str) -> None:
    play(script)


def test_a_heartbeat_that_changes_nothing_is_not_journalled() -> None:
    bench = play("stable")
    count = len(bench.journal)
    bench.run("beat a owned")
    bench.run("beat b")
    assert len(bench.journal) == count


#: After each of these, the answer that a member was given last may never have come to its agent.
LOSSES = pytest.mark.parametrize("lost", ["restart", "restart_from_snapshot", "reconnect"])


@LOSSES
def test_who_may_not_know_what_to_give_up_is_told_again(lost: str) -> None:
    play(f"""
    topic t 4
    beat a topics=t       -> a: 2 t:0,1,2,3
    beat b topics=t       -> b: 3 -
    beat a                -> a: 2 t:0,1
    {lost}
    beat a                -> a: 2 t:0,1
    beat a                -> a: 2
    beat a owned          -> a: 3
    {lost}
    beat a owned epoch=2  -> a: 3 t:0,1
    beat b                -> b: 3 t:2,3
    {lost}
    beat b                -> b: 3 t:2,3
    beat b                -> b: 3
    """)


@LOSSES
def test_who_may_not_know_its_epoch_is_told_again(lost: str) -> None:
    """This holds however often the answer is lost, and for any change in between."""
    play(f"""
    topic t 2
    beat a topics=t       -> a: 2 t:0,1
    topic t 3
    beat a                -> a: 3 t:0,1,2
    {lost}
    topic t 4
    beat a epoch=2        -> a: 3 t:0,1,2
    {lost}
    beat a epoch=2        -> a: 3 t:0,1,2
    beat a                -> a: 4 t:0,1,2,3
    beat a epoch=3        -> a: FENCED_MEMBER_EPOCH
    {lost}
    beat a epoch=2        -> a: FENCED_MEMBER_EPOCH
    """)


@LOSSES
def test_who_may_not_know_that_it_is_to_give_up_more_may_still_own_it(lost: str) -> None:
    """Its confirmation moved it to the next epoch, with fewer partitions."""
    play(f"""
    topic t 6
    beat a topics=t       -> a: 2 t:0,1,2,3,4,5
    beat b topics=t       -> b: 3 -
    beat a                -> a: 2 t:0,1,2
    beat c topics=t       -> c: 4 -
    beat a owns=t:0,1,2   -> a: 3 t:0,1
    {lost}
    beat a owns=t:0,1,2,3 epoch=2 -> a: FENCED_MEMBER_EPOCH
    beat a owns=t:0,1,2 epoch=2 -> a: 3 t:0,1
    beat a owned          -> a: 4
    """)


@pytest.mark.parametrize("first", ["beat a", "bye a instance=i for=-2", "beat c topics=t"])
def test_s26_after_a_restart_sessions_begin_with_whoever_is_heard_first(first: str) -> None:
    bench = play("""
    topic t 4
    beat a topics=t instance=i -> a: 2 t:0,1,2,3
    beat b topics=t            -> b: 3 -
    settle                     -> a=t:0,1 b=t:2,3
    """)
    bench.run("restart")
    bench.run(first)
    bench.run("after 46s")
    assert "b" not in bench.groups.consumers["g"].members, "nobody has heard of it since"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("group=", "INVALID_REQUEST"),
        ("id=", "INVALID_REQUEST"),
        ("epoch=-3", "INVALID_REQUEST"),
        ("epoch=-2", "INVALID_REQUEST"),
        ("owns=t:0", "INVALID_REQUEST"),
        ("assignor=nonsense", "UNSUPPORTED_ASSIGNOR"),
        ("regex=(", "INVALID_REGULAR_EXPRESSION"),
        ("epoch=4", "GROUP_ID_NOT_FOUND"),
        ("epoch=-1", "GROUP_ID_NOT_FOUND"),
    ],
)
def test_what_is_refused_leaves_nothing(words: str, code: str) -> None:
    bench = play("topic t 1")
    assert bench.run(f"beat a topics=t {words}") == f"a: {code}"
    assert bench.journal == []
    assert bench.run("list") == ""


@pytest.mark.slow
def test_a_subscription_has_a_largest_size() -> None:
    names = ",".join(f"{each:07}" for each in range((1 << 17) + 1))
    bench = play("topic t 1")
    assert bench.run(f"beat a topics={names}") == "a: INVALID_REQUEST"
    assert bench.run("list") == ""
    assert bench.run(f"beat a topics={names[8:]}") == "a: 2 -"


def test_offsets_need_the_epoch() -> None:
    bench = play("""
    stable                           ->
    commit x id=a gen=2 t-0@5        -> x: UNSUPPORTED_VERSION
    commit x id=c gen=2 t-0@5        -> x: UNKNOWN_MEMBER_ID
    commit x t-0@5                   -> x: UNKNOWN_MEMBER_ID
    txn_commit x 7 id=a gen=3 t-0@5  -> x: ok
    txn_commit x 7 id=a gen=2 t-0@5  -> x: ok
    txn_commit x 7 id=a gen=1 t-0@5  -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=c gen=1 t-0@5  -> x: UNKNOWN_MEMBER_ID
    txn_commit x 7 t-1@5             -> x: ok
    fetch t-0 t-1 stable             -> t-0=UNSTABLE_OFFSET_COMMIT t-1=UNSTABLE_OFFSET_COMMIT
    end 7 commit
    fetch t-0 t-1 stable             -> t-0@5 t-1@5
    delete_offsets t-0               -> GROUP_SUBSCRIBED_TO_TOPIC
    delete g                         -> NON_EMPTY_GROUP
    list types=consumer              -> g:Stable:consumer:consumer
    list types=classic               ->
    describe                         -> Dead GROUP_ID_NOT_FOUND
    bye a                            -> a: -1
    bye b                            -> b: -1
    commit x t-0@6                   -> x: ok
    delete_offsets t-0 t-9           -> ok,ok
    fetch all                        -> t-1@5
    list                             -> g:Empty:consumer:consumer
    delete g                         -> ok
    delete g                         -> GROUP_ID_NOT_FOUND
    delete_offsets t-0               -> GROUP_ID_NOT_FOUND
    state                            -> GROUP_ID_NOT_FOUND
    """)
    bench.check_every_prefix()


@pytest.mark.parametrize("restart", ["", "restart", "restart_from_snapshot"])
def test_s26_a_member_commits_with_an_epoch_since_which_it_owns_the_partitions(
    restart: str,
) -> None:
    """A commit that crosses a rebalance is accepted (KIP-1251), but not for partitions that have moved since."""
    play(f"""
    topic t 4
    beat a topics=t                    -> a: 2 t:0,1,2,3
    beat b topics=t                    -> b: 3 -
    beat a                             -> a: 2 t:0,1
    txn_commit x 7 id=a gen=2 t-3@5    -> x: ok
    beat a owned                       -> a: 3
    beat b                             -> b: 3 t:2,3
    topic t 6
    beat b                             -> b: 4 t:2,3,5
    beat a                             -> a: 4 t:0,1,4
    {restart}
    txn_commit x 7 id=a gen=2 t-0@5    -> x: ok
    txn_commit x 7 id=a gen=1 t-0@5    -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=a gen=3 t-1@5    -> x: ok
    txn_commit x 7 id=a gen=3 t-4@5    -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=a gen=4 t-4@5    -> x: ok
    txn_commit x 7 id=a gen=5 t-4@5    -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=a gen=3 t-2@5    -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=a gen=3 t-0@5 t-4@5 -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=b gen=2 t-2@5    -> x: STALE_MEMBER_EPOCH
    txn_commit x 7 id=b gen=3 t-2@5    -> x: ok
    """)
