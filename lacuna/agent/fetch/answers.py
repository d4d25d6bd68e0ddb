"""Builds a fetch's answer for each partition."""

from collections.abc import Iterable
from typing import Final

from lacuna.agent.fetch.sessions import Interest
from lacuna.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def failed(partition: int, error_code: int, isolation_level: int) -> PartitionData:
    return PartitionData(
        partition, error_code, -1, aborted_transactions=no_aborted(isolation_level)
    )


def no_aborted(isolation_level: int) -> tuple[AbortedTransaction, ...] | None:
    """Return an empty list of aborted transactions (S14), or null for read_uncommitted, as in Kafka."""
    return () if isolation_level == READ_COMMITTED else None


def size_of(answer: PartitionData) -> int:
    return sum(map(len, answer.records or ()))


def by_topic(answers: Iterable[tuple[Interest, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group the answers by topic, keeping the order of each topic's partitions."""
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for interest, answer in answers:
        topics.setdefault((interest.name, interest.topic_id), []).append(answer)
    return [FetchableTopicResponse(*key, partitions) for key, partitions in topics.items()]
