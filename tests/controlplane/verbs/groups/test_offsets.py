"""Tests OffsetCommit, TxnOffsetCommit and OffsetFetch: who may commit, and what a reader sees (S4, S6, S26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.cluster_pb2 import Outcomes
from lacuna.controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from tests.controlplane.verbs.groups.conftest import Bench, Play

TWO_STABLE = """
    join a old        -> a: gen=1 range leader=a of a
    sync a a=A        -> a: synced A
    join b old        -> b: waits
    join a            -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
    sync b            -> b: waits
    sync a a=A b=B    -> a: synced A | b: synced B
"""


def test_a_member_commits_and_reads(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    commit a t-0@5 t-1@6/note -> a: ok,ok
    commit b t-0@7    -> b: ok
    fetch t-0 t-1 t-2 -> t-0@7 t-1@6/note t-2@-1
    fetch all         -> t-0@7 t-1@6/note
    restart           ->
    fetch all         -> t-0@7 t-1@6/note
    """
    )


def test_a_standalone_commit_makes_a_simple_group(play: Play) -> None:
    play("""
    commit x t-0@5    -> x: ok
    describe          -> Empty
    list              -> g:Empty::classic
    fetch t-0         -> t-0@5
    restart_from_snapshot ->
    list              -> g:Empty::classic
    commit x t-0@6    -> x: ok
    fetch t-0         -> t-0@6
    """)


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
def test_a_fenced_member_cannot_commit(play: Play, line: str, expected: str) -> None:
    """KIP-447: it can commit neither plainly nor in a transaction."""
    bench = play(TWO_STABLE)
    before = len(bench.journal)
    assert bench.run(line) == expected
    assert len(bench.journal) == before


def test_a_transactional_commit_that_names_no_member_is_taken(play: Play) -> None:
    """Before TxnOffsetCommit v3 no client could name one."""
    play(TWO_STABLE + "txn_commit x 7 t-0@1 -> x: ok")


def test_commits_while_the_assignment_is_awaited(play: Play) -> None:
    play("""
    join a old        -> a: gen=1 range leader=a of a
    commit a t-0@1    -> a: REBALANCE_IN_PROGRESS
    txn_commit a 7 t-0@1 -> a: ok
    """)


def test_commits_while_members_join(play: Play) -> None:
    play(
        TWO_STABLE
        + """
    join c old        -> c: waits
    commit a t-0@1    -> a: ok
    """
    )


def test_metadata_is_bounded(play: Play) -> None:
    play("""
    commit x t-0@1/*4097 t-1@2/*4096 -> x: OFFSET_METADATA_TOO_LARGE,ok
    txn_commit x 7 t-0@1/*4097       -> x: OFFSET_METADATA_TOO_LARGE
    fetch t-0                        -> t-0@-1
    end 7 commit                     ->
    fetch t-0                        -> t-0@-1
    """)


def test_commits_to_what_does_not_exist_are_refused_each(play: Play) -> None:
    """S6: a commit for a deleted id is rejected."""
    play("""
    commit x t-0@1 t-100@1           -> x: ok,UNKNOWN_TOPIC_OR_PARTITION
    delete_topic t                   ->
    commit x t-0@1 u-0@1             -> x: UNKNOWN_TOPIC_OR_PARTITION,ok
    txn_commit x 7 t-0@1             -> x: UNKNOWN_TOPIC_OR_PARTITION
    """)


def test_a_deleted_topic_takes_its_offsets_with_it(play: Play) -> None:
    """S6: its pending offsets go too. Offsets of other topics stay."""
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


def test_a_producer_with_offsets_in_two_groups_keeps_the_other_when_a_topic_goes(
    play: Play,
) -> None:
    play("""
    txn_commit x 7 group=h u-0@2     -> x: ok
    txn_commit x 7 t-0@1             -> x: ok
    delete_topic t                   ->
    list                             -> h:Empty::classic
    end 7 commit                     ->
    list                             -> h:Empty::classic
    """)


def test_pending_offsets_count_when_the_transaction_commits(play: Play) -> None:
    play("""
    commit x t-0@1                   -> x: ok
    txn_commit x 7 t-0@2             -> x: ok
    fetch t-0                        -> t-0@1
    fetch t-0 t-1 stable             -> t-0=UNSTABLE_OFFSET_COMMIT t-1@-1
    fetch all stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
    restart                          ->
    fetch t-0 stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
    end 7 commit                     ->
    fetch t-0 stable                 -> t-0@2
    """)


def test_pending_offsets_are_dropped_when_the_transaction_aborts(play: Play) -> None:
    play("""
    commit x t-0@1                   -> x: ok
    txn_commit x 7 t-0@2 t-1@2       -> x: ok,ok
    end 7 abort                      ->
    fetch t-0 t-1 stable             -> t-0@1 t-1@-1
    """)


def test_a_commit_written_after_the_pending_one_stays(play: Play) -> None:
    play("""
    txn_commit x 7 t-0@2             -> x: ok
    commit x t-0@9                   -> x: ok
    restart_from_snapshot            ->
    fetch t-0                        -> t-0@9
    """)
    play("""
    txn_commit x 7 t-0@2             -> x: ok
    commit x t-0@9                   -> x: ok
    end 7 commit                     ->
    fetch t-0 stable                 -> t-0@9
    """)


def test_two_transactions_on_one_partition(play: Play) -> None:
    play("""
    txn_commit x 7 t-0@2             -> x: ok
    txn_commit x 8 t-0@3             -> x: ok
    end 8 commit                     ->
    fetch t-0 stable                 -> t-0=UNSTABLE_OFFSET_COMMIT
    end 7 commit                     ->
    fetch t-0 stable                 -> t-0@3
    """)


def test_the_end_of_a_transaction_without_offsets_changes_nothing(play: Play) -> None:
    play("""
    commit x t-0@1                   -> x: ok
    end 9 commit                     ->
    fetch all                        -> t-0@1
    """)


def test_many_groups_in_one_fetch(bench: Bench) -> None:
    bench.run("commit x group=g t-0@1")
    bench.run("commit x group=h t-0@2")
    groups = [g.OffsetFetchGroup(group_id=name, all_partitions=True) for name in ("h", "no", "g")]
    reply, _ = bench.send("", Command(offset_fetch=g.OffsetFetch(groups=groups)))
    assert reply is not None
    found = [[offset.offset for offset in group.offsets] for group in reply.offsets_fetched.groups]
    assert found == [[2], [], [1]]
    assert [group.error_code for group in reply.offsets_fetched.groups] == [0, 0, 0]


def test_leader_epochs_are_kept(bench: Bench) -> None:
    partition = g.CommittedOffset().partition
    partition.topic_id, partition.partition = b"t" * 16, 0
    offset = g.CommittedOffset(partition=partition, offset=3, leader_epoch=0)
    commit = g.OffsetCommit(group_id="g", generation_id=-1, offsets=[offset])
    bench.send("x", Command(offset_commit=commit))
    fetch = g.OffsetFetchGroup(group_id="g", all_partitions=True)
    reply, _ = bench.send("", Command(offset_fetch=g.OffsetFetch(groups=[fetch])))
    assert reply is not None
    assert [found.leader_epoch for found in reply.offsets_fetched.groups[0].offsets] == [0]


def test_a_commit_of_no_offsets_writes_nothing(bench: Bench) -> None:
    commit = g.OffsetCommit(group_id="g", generation_id=-1)
    reply, _ = bench.send("x", Command(offset_commit=commit))
    assert reply is not None
    assert reply.offsets_committed == Outcomes()
    assert bench.journal == []
