"""Tests OffsetCommit, TxnOffsetCommit and OffsetFetch: who may commit, and what a reader sees (S4, S6, S26)."""

import pytest

from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.control_pb2 import Command
from tests.controlplane.verbs.groups.conftest import Bench, play

SCRIPTS = {
    "a member commits and reads": """
        stable            ->
        commit a t-0@5 t-1@6/note -> a: ok,ok
        commit b t-0@7    -> b: ok
        fetch t-0 t-1 t-2 -> t-0@7 t-1@6/note t-2@-1
        fetch all         -> t-0@7 t-1@6/note
        restart           ->
        fetch all         -> t-0@7 t-1@6/note
    """,
    "a standalone commit makes a simple group": """
        commit x t-0@5    -> x: ok
        describe          -> Empty
        list              -> g:Empty::classic
        fetch t-0         -> t-0@5
        restart_from_snapshot ->
        list              -> g:Empty::classic
        commit x t-0@6    -> x: ok
        fetch t-0         -> t-0@6
    """,
    # Before TxnOffsetCommit v3 no client could name one.
    "a transactional commit that names no member is taken": """
        stable               ->
        txn_commit x 7 t-0@1 -> x: ok
    """,
    "commits while the assignment is awaited": """
        join a old        -> a: gen=1 range leader=a of a
        commit a t-0@1    -> a: REBALANCE_IN_PROGRESS
        txn_commit a 7 t-0@1 -> a: ok
    """,
    "commits while members join": """
        stable            ->
        join c old        -> c: waits
        commit a t-0@1    -> a: ok
    """,
    "metadata is bounded": """
        commit x t-0@1/*4097 t-1@2/*4096 -> x: OFFSET_METADATA_TOO_LARGE,ok
        txn_commit x 7 t-0@1/*4097       -> x: OFFSET_METADATA_TOO_LARGE
        fetch t-0                        -> t-0@-1
        end 7 commit                     ->
        fetch t-0                        -> t-0@-1
    """,
    # S6: a commit for a deleted id is rejected.
    "commits to what does not exist are refused each": """
        commit x t-0@1 t-100@1           -> x: ok,UNKNOWN_TOPIC_OR_PARTITION
        delete_topic t                   ->
        commit x t-0@1 u-0@1             -> x: UNKNOWN_TOPIC_OR_PARTITION,ok
        txn_commit x 7 t-0@1             -> x: UNKNOWN_TOPIC_OR_PARTITION
    """,
    "a producer with offsets in two groups keeps the other when a topic goes": """
        txn_commit x 7 group=h u-0@2     -> x: ok
        txn_commit x 7 t-0@1             -> x: ok
        delete_topic t                   ->
        list                             -> h:Empty::classic
        end 7 commit                     ->
        list                             -> h:Empty::classic
    """,
    "pending offsets count when the transaction commits": """
        commit x t-0@1                   -> x: ok
        txn_commit x 7 t-0@2             -> x: ok
        fetch t-0                        -> t-0@1
        fetch t-0 t-1 stable             -> t-0=UNSTABLE_OFFSET_COMMIT t-1@-1
        fetch all stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
        restart                          ->
        fetch t-0 stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
        end 7 commit                     ->
        fetch t-0 stable                 -> t-0@2
    """,
    "two transactions on one partition": """
        txn_commit x 7 t-0@2             -> x: ok
        txn_commit x 8 t-0@3             -> x: ok
        end 8 commit                     ->
        fetch t-0 stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
        end 7 commit                     ->
        fetch t-0 stable                 -> t-0@3
    """,
    "the end of a transaction without offsets changes nothing": """
        commit x t-0@1                   -> x: ok
        end 9 commit                     ->
        fetch all                        -> t-0@1
    """,
    "a commit written after the pending one stays": """
        txn_commit x 7 t-0@2             -> x: ok
        commit x t-0@9                   -> x: ok
        restart_from_snapshot            ->
        fetch t-0                        -> t-0@9
        end 7 commit                     ->
        fetch t-0 stable                 -> t-0@9
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_offsets(script: str) -> None:
    play(script)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("commit a gen=1 t-0@1", "a: ILLEGAL_GENERATION"),
        ("commit a gen=3 t-0@1", "a: ILLEGAL_GENERATION"),
        ("commit a gen=-1 t-0@1", "a: ILLEGAL_GENERATION"),
        ("commit a id=ghost t-0@1 t-1@1", "a: UNKNOWN_MEMBER_ID"),
        ("commit x t-0@1", "x: UNKNOWN_MEMBER_ID"),
        ("commit a instance=i t-0@1", "a: UNKNOWN_MEMBER_ID"),
        ("commit a group=other t-0@1", "a: GROUP_ID_NOT_FOUND"),
        ("txn_commit a 7 gen=1 t-0@1", "a: ILLEGAL_GENERATION"),
        ("txn_commit a 7 id=ghost t-0@1", "a: UNKNOWN_MEMBER_ID"),
        ("txn_commit a 7 instance=i t-0@1", "a: UNKNOWN_MEMBER_ID"),
        ("txn_commit a 7 group=other t-0@1", "a: GROUP_ID_NOT_FOUND"),
        ("txn_commit a 7 group= t-0@1", "a: INVALID_GROUP_ID"),
    ],
)
def test_a_fenced_member_cannot_commit(line: str, expected: str) -> None:
    """KIP-447: it can commit neither outside nor inside a transaction."""
    bench = play("stable")
    before = len(bench.journal)
    assert bench.run(line) == expected
    assert len(bench.journal) == before


def test_a_deleted_topic_takes_its_offsets_with_it() -> None:
    """S6: its pending offsets are removed too. Offsets of other topics are kept."""
    play("""
    commit x t-0@1 u-0@1             -> x: ok,ok
    txn_commit x 7 t-0@2 u-0@2       -> x: ok,ok
    txn_commit x 8 t-1@3             -> x: ok
    delete_topic t                   ->
    fetch all                        -> u-0@1
    end 7 commit                     ->
    end 8 commit                     ->
    fetch all                        -> u-0@2
    delete_topic u                   ->
    fetch all                        ->
    """)


def test_pending_offsets_are_dropped_when_the_transaction_aborts() -> None:
    play("""
    commit x t-0@1                   -> x: ok
    txn_commit x 7 t-0@2 t-1@2       -> x: ok,ok
    end 7 abort                      ->
    fetch t-0 t-1 stable             -> t-0@1 t-1@-1
    """)


def test_many_groups_in_one_fetch() -> None:
    bench = Bench()
    bench.run("commit x group=g t-0@1")
    bench.run("commit x group=h t-0@2")
    groups = [g.OffsetFetchGroup(group_id=name, all_partitions=True) for name in ("h", "no", "g")]
    reply = bench.ask(Command(offset_fetch=g.OffsetFetch(groups=groups)))
    found = [[offset.offset for offset in group.offsets] for group in reply.offsets_fetched.groups]
    assert found == [[2], [], [1]]
    assert [group.error_code for group in reply.offsets_fetched.groups] == [0, 0, 0]


def test_leader_epochs_are_kept() -> None:
    bench = Bench()
    partition = g.CommittedOffset().partition
    partition.topic_id, partition.partition = b"t" * 16, 0
    offset = g.CommittedOffset(partition=partition, offset=3, leader_epoch=0)
    commit = g.OffsetCommit(group_id="g", generation_id=-1, offsets=[offset])
    bench.send("x", Command(offset_commit=commit))
    fetch = g.OffsetFetchGroup(group_id="g", all_partitions=True)
    reply = bench.ask(Command(offset_fetch=g.OffsetFetch(groups=[fetch])))
    assert [found.leader_epoch for found in reply.offsets_fetched.groups[0].offsets] == [0]


def test_a_commit_of_no_offsets_writes_nothing() -> None:
    bench = Bench()
    commit = g.OffsetCommit(group_id="g", generation_id=-1)
    reply, _ = bench.send("x", Command(offset_commit=commit))
    assert reply is not None
    assert reply.offsets_committed == Outcomes()
    assert bench.journal == []
