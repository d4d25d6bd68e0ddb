"""Tests how committed offsets go: by OffsetDelete (KIP-496), and by the retention that a client sets for them."""

from tests.controlplane.verbs.groups.consumer.bench import play


def test_a_group_without_offsets_stays_until_expired_ones_are_looked_for() -> None:
    """As in Kafka, the search runs every ten minutes. Until then the group can be listed and deleted."""
    play(
        """
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
    """
    )


def test_a_staged_offset_is_deleted_with_the_committed_one() -> None:
    """The commit of its transaction must not restore it."""
    play(
        """
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
    """
    )


def test_a_group_of_which_only_staged_offsets_were_left_is_empty_after_their_deletion() -> None:
    play(
        """
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
    """
    )


def test_what_is_staged_after_the_deletion_is_committed() -> None:
    play(
        """
    topic t 1
    txn_commit x 7 t-0@2             -> x: ok
    delete_offsets t-0               -> ok
    txn_commit x 7 t-0@3             -> x: ok
    end 7 commit                     ->
    fetch all                        -> t-0@3
    """
    )


def test_what_is_staged_in_another_group_stays() -> None:
    play(
        """
    topic t 1
    txn_commit x 7 t-0@2             -> x: ok
    txn_commit x 7 group=h t-0@3     -> x: ok
    delete_offsets t-0               -> ok
    end 7 commit                     ->
    after 1s                         ->
    after 10min                      ->
    list                             -> h:Empty::classic
    """
    )


def test_an_offset_is_kept_as_long_as_its_client_says() -> None:
    """It counts from the commit. The next commit without a retention restores the cluster's seven days."""
    play(
        """
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
    """
    )


def test_no_time_at_all_is_until_the_next_check() -> None:
    play(
        """
    topic t 2
    after 1s
    commit x keep=0ms t-0@1          -> x: ok
    commit x t-1@1                   -> x: ok
    fetch all                        -> t-0@1 t-1@1
    after 10min                      ->
    fetch all                        -> t-1@1
    """
    )
