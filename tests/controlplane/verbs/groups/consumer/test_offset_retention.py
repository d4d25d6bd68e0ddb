"""Tests the retention that a client sets for its offsets (OffsetCommit v2 to v4), which Kafka honours."""

from tests.controlplane.verbs.groups.consumer.bench import play


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
