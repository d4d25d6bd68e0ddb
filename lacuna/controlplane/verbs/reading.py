"""Read-only commands: partitions now and in the past, hot segments, producers and transactions (S7, S21)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.history import Widths, common_second, known_from
from lacuna.controlplane.shared.internal_topics import partition_of
from lacuna.controlplane.shared.partitions import key_of, named
from lacuna.controlplane.shared.parts import MOST_LISTED
from lacuna.controlplane.shared.rights import QUESTIONS, Need
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.past_cuts import Lowered
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.transactional import TransactionalId
from lacuna.controlplane.state.unsettled import cut_of
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import (
    AsOfRead,
    CutRead,
    HistoriesRead,
    PartitionAsOf,
    PartitionsRead,
    PartitionState,
    ReadAsOf,
    ReadHot,
    ReadPartitions,
    StableHistory,
)
from lacuna.controlplane.v1.transactions_pb2 import (
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
from lacuna.controlplane.verbs import internal
from lacuna.controlplane.verbs.housekeeping import partition_state
from lacuna.controlplane.verbs.parts import following, until_full
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: The maximum number of open transactions in an answer.
_MOST_HOLDERS: Final = 100

#: All of Kafka's transaction states, including those that Lacuna does not have because the flip is one step.
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


def read_partitions(turn: Turn, command: ReadPartitions) -> Reply:
    """Return the current offsets of partitions (the confirming read of S7)."""
    answers = []
    for wanted in command.partitions:
        key = key_of(wanted)
        partition = turn.state.partitions.get(key)
        if partition is not None:
            answers.append(partition_state(partition))
        else:
            unknown = PartitionState(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answers.append(internal.partition_state(turn.state, key) or unknown)
    return Reply(partitions_read=PartitionsRead(partitions=answers))


def read_as_of(turn: Turn, command: ReadAsOf) -> Reply:
    """Return where partitions ended, for read_committed consumers or in a cut, at a time common to all of them."""
    state = turn.state
    found = [state.partitions.get(key_of(wanted)) for wanted in command.partitions]
    pasts: list[Widths] = [each.history for each in found if each is not None]
    if command.is_cut:
        pasts.append(state.past_cuts)
    known = known_from(pasts)
    second = common_second(pasts, min(command.at_ms, turn.now_ms))
    answer = AsOfRead(known_from_ms=known * 1000)
    if second >= known:
        lowered = state.cut_at(second) if command.is_cut else {}
        answer.as_of_ms = second * 1000
        answer.partitions.extend(_as_of(each, second, lowered) for each in found)
    return Reply(as_of_read=answer)


def _as_of(partition: Partition | None, second: int, lowered: Lowered) -> PartitionAsOf:
    if partition is None:
        return PartitionAsOf(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stable = partition.last_stable_offset
    end = partition.history.at(second, stable)
    return PartitionAsOf(
        end_offset=min(end, lowered.get(partition.key, end)),
        log_start_offset=partition.log_start_offset,
        last_stable_offset=stable,
    )


def read_cut(turn: Turn, command: ReadPartitions) -> Reply:
    """Return the largest ends that split no transaction, and the open transactions that hold them back."""
    state = turn.state
    keys = [key_of(wanted) for wanted in command.partitions]
    found = {key: state.partitions[key] for key in keys if key in state.partitions}
    cut = cut_of(found, list(state.unsettled.transactions.values()))
    held_by = {
        key: found[cut.holders.get(key, key)]
        for key, end in cut.ends.items()
        if end < found[key].high_watermark
    }
    counts = Counter(next(iter(each.ongoing)) for each in held_by.values())
    listed = [producer_id for producer_id, _ in counts.most_common(_MOST_HOLDERS)]
    numbers = {producer_id: number for number, producer_id in enumerate(listed, 1)}
    answer = CutRead(at_ms=turn.now_ms)
    for key in keys:
        partition = found.get(key)
        if partition is None:
            answer.partitions.add(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        holder = held_by.get(key)
        answer.partitions.add(
            end_offset=cut.ends[key],
            last_stable_offset=partition.last_stable_offset,
            holder=0 if holder is None else numbers.get(next(iter(holder.ongoing)), 0),
        )
    for producer_id in listed:
        holding = state.producers[producer_id]
        answer.holders.add(
            transactional_id=holding.transactional_id,
            producer_id=producer_id,
            start_time_ms=holding.start_time_ms,
            transaction_timeout_ms=holding.transaction_timeout_ms,
            partitions=counts[producer_id],
        )
    return Reply(cut_read=answer)


def read_histories(turn: Turn, command: ReadPartitions) -> Reply:
    found = (turn.state.partitions.get(key_of(wanted)) for wanted in command.partitions)
    answers = until_full(
        found, lambda each: StableHistory() if each is None else each.history.message()
    )
    return Reply(histories_read=HistoriesRead(histories=answers))


def describe_producers(turn: Turn, command: DescribeProducers) -> Reply:
    """Describe the producers that have an idempotence window in each partition, ordered by producer id."""
    answers: list[PartitionProducers] = []
    after = command.after if command.HasField("after") else None
    left = MOST_LISTED
    for wanted in command.partitions:
        key = key_of(wanted)
        partition = turn.state.partitions.get(key)
        if partition is None and turn.state.internal.find(key) is not None:
            answers.append(PartitionProducers())
        elif partition is None:
            answers.append(PartitionProducers(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            answers.append(_producers(partition, after, left))
            left -= len(answers[-1].producers)
        after = None
        if left <= 0:
            break
    return Reply(producers_described=ProducersDescribed(partitions=answers))


def _producers(partition: Partition, after: int | None, most: int) -> PartitionProducers:
    found, next_after = following(partition.producers, after, most)
    windows = ((producer_id, partition.producers[producer_id]) for producer_id in found)
    producers = [
        ActiveProducer(
            producer_id=producer_id,
            producer_epoch=window.producer_epoch,
            last_sequence=window.last_sequence,
            last_timestamp=window.last_timestamp,
            current_txn_start_offset=partition.ongoing.get(producer_id, -1),
        )
        for producer_id, window in windows
    ]
    return PartitionProducers(producers=producers, next_after=next_after)


def describe_transactions(turn: Turn, command: DescribeTransactions) -> Reply:
    """Describe transactional ids and their ongoing transactions."""
    answers = until_full(
        command.transactional_ids, lambda each: _describe_transaction(turn.state, each)
    )
    return Reply(transactions_described=TransactionsDescribed(transactions=answers))


def _describe_transaction(state: State, transactional_id: str) -> TransactionDescription:
    found = state.transactional_ids.get(transactional_id)
    if found is not None:
        return _description(state, found)
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if not transactional_id:
        code = ErrorCode.INVALID_REQUEST
    return TransactionDescription(
        error_code=code,
        transactional_id=transactional_id,
        start_time_ms=-1,
        producer_id=-1,
        producer_epoch=-1,
    )


def _description(state: State, found: TransactionalId) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=found.transactional_id,
        state=found.state.value,
        transaction_timeout_ms=found.transaction_timeout_ms,
        start_time_ms=found.start_time_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        partitions=[named(key) for key in found.partitions if key in state.partitions],
        offsets_partitions=sorted(set(map(partition_of, found.group_ids))),
    )


def list_transactions(turn: Turn, command: ListTransactions) -> Reply:
    """List transactional ids, filtered by state, producer id and transaction age (KIP-664, KIP-994)."""
    states = set(command.states)
    producer_ids = set(command.producer_ids)
    after = command.after if command.HasField("after") else None
    ids, next_after = following(turn.state.transactional_ids, after, MOST_LISTED)
    listed = [
        TransactionListing(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            state=found.state.value,
        )
        for found in map(turn.state.transactional_ids.__getitem__, ids)
        if (not states or found.state.value in states)
        and (not producer_ids or found.producer_id in producer_ids)
        and _is_older(found, command.duration_ms, turn.now_ms)
    ]
    unknown = [name for name in command.states if name not in KNOWN_STATES]
    answer = TransactionsListed(transactions=listed, unknown_states=unknown, next_after=next_after)
    return Reply(transactions_listed=answer)


def _is_older(found: TransactionalId, duration_ms: int, now_ms: int) -> bool:
    if (
        duration_ms <= 0
    ):  # clients that do not know the filter send 0, for which Kafka also lists all transactions
        return True
    return found.is_ongoing and now_ms - found.start_time_ms > duration_ms


def read_hot(_turn: Turn, _command: ReadHot) -> None:
    """Park the command, which the runtime answers once it has read the journal."""


def _needs_of_hot(_command: ReadHot, _state: State) -> Iterator[Need]:
    # A segment has records of several topics, and a job that may read only some of them receives all of its bytes.
    # But other segments are in the bucket, where the job could read them just as well: ACLs do not restrict its
    # credentials for the bucket, and encrypted objects stay encrypted in this answer (docs/security.md). A job that
    # may not read any topic has no use for these bytes.
    yield Need((Operation.READ,), ResourceType.TOPIC, None)


VERBS: Final = (
    Verb(read_hot, looks=True, needs=_needs_of_hot),
    Verb(read_partitions, looks=True, needs=QUESTIONS["read_partitions"]),
    Verb(read_as_of, looks=True, needs=QUESTIONS["read_as_of"]),
    Verb(read_cut, looks=True, needs=QUESTIONS["read_cut"]),
    Verb(read_histories, looks=True, needs=QUESTIONS["read_histories"]),
    Verb(describe_producers, looks=True, needs=QUESTIONS["describe_producers"]),
    Verb(describe_transactions, looks=True, needs=QUESTIONS["describe_transactions"]),
    Verb(list_transactions, looks=True, needs=QUESTIONS["list_transactions"]),
)
