"""From buffers to the answer: what a fetch says of each partition."""

from collections.abc import Iterable
from typing import Final

from lacuna.agent.fetch.sessions import Interest
from lacuna.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def failed(partition: int, error_code: int, isolation_level: int) -> PartitionData:
    """An error, and nothing else."""
    return PartitionData(
        partition, error_code, -1, aborted_transactions=no_aborted(isolation_level)
    )


def no_aborted(isolation_level: int) -> tuple[AbortedTransaction, ...] | None:
    """There is never one (S14): an empty list, for read_uncommitted null, as Kafka says it."""
    return () if isolation_level == READ_COMMITTED else None


def size_of(answer: PartitionData) -> int:
    """Bytes of its records."""
    return sum(map(len, answer.records or ()))


def by_topic(answers: Iterable[tuple[Interest, PartitionData]]) -> list[FetchableTopicResponse]:
    """Each topic once, with the answers for its partitions in their order."""
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for interest, answer in answers:
        topics.setdefault((interest.name, interest.topic_id), []).append(answer)
    return [FetchableTopicResponse(*key, partitions) for key, partitions in topics.items()]
