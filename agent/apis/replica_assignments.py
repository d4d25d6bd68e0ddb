"""What can be told of a manual replica assignment without replicas: the mistakes that Kafka names too."""

from collections import Counter
from collections.abc import Iterable, Sequence


def problem_of(assignments: Iterable[Sequence[int]]) -> str:
    """What is wrong with the brokers of each partition, in Kafka's words; "" where nothing is.

    Whether the brokers exist is not looked at: an assignment that was made for a cluster of Kafka counts partitions.
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
