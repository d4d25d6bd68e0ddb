"""Builds a fetch's answer for each partition from the partition's buffers."""

from collections.abc import Iterable
from typing import Final

from lacuna.agent.fetch.sessions import Interest
from lacuna.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def failed(partition: int, error_code: int, isolation_level: int) -> PartitionData:
    """Return an answer that has only an error."""
    return PartitionData(
        partition, error_code, -1, aborted_transactions=no_aborted(isolation_level)
    )


def no_aborted(isolation_level: int) -> tuple[AbortedTransaction, ...] | None:
    """Return the aborted transactions of an answer: an empty list (S14), or null for read_uncommitted, as in Kafka."""
    return () if isolation_level == READ_COMMITTED else None


def size_of(answer: PartitionData) -> int:
    """Return the size of the answer's records in bytes."""
    return sum(map(len, answer.records or ()))


def by_topic(answers: Iterable[tuple[Interest, PartitionData]]) -> list[FetchableTopicResponse]:
    """Return each topic once, with the answers for its partitions in the given order."""
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for interest, answer in answers:
        topics.setdefault((interest.name, interest.topic_id), []).append(answer)
    return [FetchableTopicResponse(*key, partitions) for key, partitions in topics.items()]
