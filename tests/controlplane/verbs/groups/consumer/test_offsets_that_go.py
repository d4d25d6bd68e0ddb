"""Tests how committed offsets are removed: by OffsetDelete (KIP-496), and by the retention that a client requests."""

import pytest

from tests.controlplane.verbs.groups.consumer.bench import play

SCRIPTS = {
    # As in Kafka, the search runs every ten minutes. Until then the group can be listed and deleted.
    "a group without offsets stays until expired ones are looked for": """
        topic t 1
        after 1s
        commit x t-0@1       -> x: ok
        delete_offsets t-0   -> ok
        list                 -> g:Empty::classic
        delete_offsets t-0   -> ok
        list                 -> g:Empty::classic
        delete g             -> ok
        list                 ->
        commit x t-0@1       -> x: ok
        delete_offsets t-0   -> ok
        after 9min           ->
        list                 -> g:Empty::classic
        after 1min           ->
        list                 ->
        delete_offsets t-0   -> GROUP_ID_NOT_FOUND
    """,
    "a group of which only staged offsets were left is empty after their deletion": """
        topic t 2
        after 1s
        txn_commit x 7 t-0@2 t-1@2       -> x: ok,ok
        delete_offsets t-1               -> ok
        list                             -> g:Empty::classic
        delete_offsets t-0               -> ok
        list                             -> g:Empty::classic
        end 7 commit                     ->
        fetch all                        ->
        after 10min                      ->
        list                             ->
    """,
    "what is staged after the deletion is committed": """
        topic t 1
        txn_commit x 7 t-0@2             -> x: ok
        delete_offsets t-0               -> ok
        txn_commit x 7 t-0@3             -> x: ok
        end 7 commit                     ->
        fetch all                        -> t-0@3
    """,
    "what is staged in another group stays": """
        topic t 1
        txn_commit x 7 t-0@2             -> x: ok
        txn_commit x 7 group=h t-0@3     -> x: ok
        delete_offsets t-0               -> ok
        end 7 commit                     ->
        after 1s                         ->
        after 10min                      ->
        list                             -> h:Empty::classic
    """,
    # It counts from the commit. The next commit without a retention restores the cluster's seven days.
    "an offset is kept as long as its client says": """
        topic t 4
        after 1s
        commit x keep=1h t-0@1 t-1@1     -> x: ok,ok
        commit x keep=30d t-2@1          -> x: ok
        commit x t-3@1                   -> x: ok
        commit x t-1@2                   -> x: ok
        after 50min                      ->
        fetch all                        -> t-0@1 t-1@2 t-2@1 t-3@1
        restart_from_snapshot            ->
        after 1s                         ->
        after 20min                      ->
        fetch all                        -> t-1@2 t-2@1 t-3@1
        after 8d                         ->
        fetch all                        -> t-2@1
        after 22d                        ->
        fetch all                        ->
        list                             ->
    """,
    "no time at all is until the next check": """
        topic t 2
        after 1s
        commit x keep=0ms t-0@1          -> x: ok
        commit x t-1@1                   -> x: ok
        fetch all                        -> t-0@1 t-1@1
        after 10min                      ->
        fetch all                        -> t-1@1
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_offsets_that_go(script: str) -> None:
    play(script)


def test_a_staged_offset_is_deleted_with_the_committed_one() -> None:
    """Committing its transaction must not restore it."""
    play("""
    topic t 3
    commit x t-0@1                   -> x: ok
    txn_commit x 7 t-0@2 t-1@2       -> x: ok,ok
    txn_commit x 8 t-0@3             -> x: ok
    delete_offsets t-0               -> ok
    fetch t-0 stable                 -> t-0@-1
    fetch t-1 stable                 -> t-1=UNSTABLE_OFFSET_COMMIT
    restart_from_snapshot            ->
    end 7 commit                     ->
    end 8 commit                     ->
    fetch all                        -> t-1@2
    """)
