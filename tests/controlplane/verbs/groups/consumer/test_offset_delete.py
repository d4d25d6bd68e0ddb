"""OffsetDelete of all that a classic group has (KIP-496)."""

from tests.controlplane.verbs.groups.consumer.bench import play


def test_a_group_without_offsets_stays_until_expired_ones_are_looked_for() -> None:
    """As in Kafka, which looks every ten minutes: until then it can be seen and deleted."""
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
