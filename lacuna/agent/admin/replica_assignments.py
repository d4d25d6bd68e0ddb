"""Validates manual replica assignments with Kafka's errors, although there are no replicas."""

from collections import Counter
from collections.abc import Iterable, Sequence


def problem_of(assignments: Iterable[Sequence[int]]) -> str:
    """Return Kafka's error message for an assignment (the broker ids of each partition), or "" if it is valid.

    Only the number of partitions has an effect, so the brokers need not exist.
    """
    factor = 0
    for broker_ids in assignments:
        if not broker_ids:
            return "The manual partition assignment includes an empty replica list."
        if len(set(broker_ids)) < len(broker_ids):
            twice = next(one for one, count in Counter(broker_ids).items() if count > 1)
            return f"The manual partition assignment includes the broker {twice} more than once."
        if factor not in (0, len(broker_ids)):
            return (
                f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is "
                f"not consistent with previous partitions, which have {factor} replica(s)."
            )
        factor = len(broker_ids)
    return ""
