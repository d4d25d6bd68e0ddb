"""Commands that only read: ReadPartitions and the Describe and List APIs (S7, S21)."""

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.state.housekeeping import partition_state
from controlplane.state.partition import Partition, key_of
from controlplane.state.state import State
from controlplane.state.transactional import TransactionalId
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.log_pb2 import PartitionsRead, PartitionState, ReadPartitions
from controlplane.v1.transactions_pb2 import (
    ActiveProducer,
    DescribeProducers,
    DescribeTransactions,
    ListTransactions,
    PartitionProducers,
    ProducersDescribed,
    TransactionDescription,
    TransactionListing,
    TransactionsDescribed,
    TransactionsListed,
)

#: All of Kafka's, also those that a flip in one step never shows.
KNOWN_STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)


def read_partitions(state: State, command: ReadPartitions, _context: Context) -> Decision:
    """The confirming read of S7."""
    answers = []
    for wanted in command.partitions:
        partition = state.partitions.get(key_of(wanted))
        if partition is None:
            answers.append(PartitionState(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            answers.append(partition_state(partition))
    return Decision(reply=Reply(partitions_read=PartitionsRead(partitions=answers)))


def describe_producers(state: State, command: DescribeProducers, _context: Context) -> Decision:
    """The producers with a window in each partition, by producer id."""
    answers = []
    for wanted in command.partitions:
        partition = state.partitions.get(key_of(wanted))
        if partition is None:
            answers.append(PartitionProducers(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            answers.append(PartitionProducers(producers=_producers(partition)))
    return Decision(reply=Reply(producers_described=ProducersDescribed(partitions=answers)))


def _producers(partition: Partition) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer_id=producer_id,
            producer_epoch=window.producer_epoch,
            last_sequence=window.last_sequence,
            last_timestamp=window.last_timestamp,
            current_txn_start_offset=partition.ongoing.get(producer_id, -1),
        )
        for producer_id, window in sorted(partition.producers.items())
    ]


def describe_transactions(
    state: State, command: DescribeTransactions, _context: Context
) -> Decision:
    """Transactional ids and what they have open."""
    answers = []
    for transactional_id in command.transactional_ids:
        found = state.transactional_ids.get(transactional_id)
        if found is not None:
            answers.append(_description(found))
            continue
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if not transactional_id:
            code = ErrorCode.INVALID_REQUEST
        answers.append(
            TransactionDescription(
                error_code=code,
                transactional_id=transactional_id,
                start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
            )
        )
    described = TransactionsDescribed(transactions=answers)
    return Decision(reply=Reply(transactions_described=described))


def _description(found: TransactionalId) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=found.transactional_id,
        state=found.state.value,
        transaction_timeout_ms=found.transaction_timeout_ms,
        start_time_ms=found.start_time_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        partitions=[
            TopicPartition(topic_id=topic_id, partition=partition)
            for topic_id, partition in found.partitions
        ],
    )


def list_transactions(state: State, command: ListTransactions, context: Context) -> Decision:
    """Transactional ids by state, producer id and the age of what they have open (KIP-664,
    KIP-994).
    """
    states = set(command.states)
    producer_ids = set(command.producer_ids)
    listed = [
        TransactionListing(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            state=found.state.value,
        )
        for found in state.transactional_ids.values()
        if (not states or found.state.value in states)
        and (not producer_ids or found.producer_id in producer_ids)
        and _is_older(found, command.duration_ms, context.now_ms)
    ]
    unknown = [name for name in command.states if name not in KNOWN_STATES]
    answer = TransactionsListed(transactions=listed, unknown_states=unknown)
    return Decision(reply=Reply(transactions_listed=answer))


def _is_older(found: TransactionalId, duration_ms: int, now_ms: int) -> bool:
    if duration_ms <= 0:  # 0 is what clients send that know of no filter; Kafka lists all by it too
        return True
    return found.is_ongoing and now_ms - found.start_time_ms > duration_ms
