"""The end of a transaction: EndTxn, AbortTxn, or its timeout. The flip is one journal record (S1, S5, S8, S21)."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import to_little_endian
from lacuna.controlplane.shared.rights import of_transaction
from lacuna.controlplane.state.settings import MAX_PER_TICK, TRANSACTIONAL_ID_EXPIRATION_MS
from lacuna.controlplane.state.state import State, size_of_group_of_transaction
from lacuna.controlplane.state.transactional import (
    EXHAUSTED_EPOCH,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionalId,
    TransactionEvent,
    TransactionState,
)
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, TransactionEnded
from lacuna.controlplane.v1.transactions_pb2 import AbortTxn, EndTxn, ProducerIdentity
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def end_txn(turn: Turn, command: EndTxn) -> Reply:
    """Commit or abort a transaction. A retry receives the original answer (S5)."""
    state = turn.state
    decide = _end_bumping if command.bumps_epoch else _end_plainly
    try:
        if command.lease_id and command.lease_id not in state.leases:
            # The agent may have delayed the command for a long time, and with TV1, it would still look valid.
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if not command.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        found = state.transactional_ids.get(command.transactional_id)
        if found is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        record = decide(state, found, command)
    except Refused as refused:
        answer = ProducerIdentity(
            error_code=refused.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
        return Reply(txn_ended=answer)
    if record is None:
        return _ended(found.producer_id, found.producer_epoch)
    turn.journal(JournalRecord(transaction_ended=record))
    return _ended(record.next_producer_id, record.next_producer_epoch)


def _ended(producer_id: int, producer_epoch: int) -> Reply:
    return Reply(txn_ended={"producer_id": producer_id, "producer_epoch": producer_epoch})


#: The state in which a transaction with this outcome has already ended.
_DONE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def _end_plainly(_state: State, found: TransactionalId, command: EndTxn) -> TransactionEnded | None:
    """Decide EndTxn under TV1, which keeps the epoch. Return None if the transaction already had this outcome."""
    if found.producer_id != command.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not found.is_current(command.producer_epoch):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if found.state is _DONE[command.committed]:
        return None
    if not found.is_ongoing:
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    return TransactionEnded(
        producer_id=found.producer_id,
        committed=command.committed,
        next_producer_id=found.producer_id,
        next_producer_epoch=found.producer_epoch,
    )


def _end_bumping(state: State, found: TransactionalId, command: EndTxn) -> TransactionEnded | None:
    """Decide EndTxn under TV2, which increases the epoch so that a delayed EndTxn cannot end the next transaction.

    Return None for a retry, recognized by the previous epoch (KIP-890). If the coordinator has used up the last epoch,
    the producer continues with a new id.
    """
    given = (command.producer_id, command.producer_epoch)
    if given == (found.ended_producer_id, found.ended_producer_epoch) and not found.is_ongoing:
        if found.state is _DONE[command.committed]:
            is_taken = found.producer_epoch >= LAST_EPOCH
            return _bumped(state, found, command) if is_taken else None
        if found.is_ended_by_coordinator:
            raise Refused(ErrorCode.PRODUCER_FENCED)
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    if found.producer_id != command.producer_id:
        is_before = given == (found.previous_producer_id, EXHAUSTED_EPOCH)
        raise Refused(
            ErrorCode.PRODUCER_FENCED
            if is_before and found.producer_epoch == 0
            else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )
    if not found.is_current(command.producer_epoch):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    event = TransactionEvent.COMMIT if command.committed else TransactionEvent.ABORT
    if not found.allows(event):
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    return _bumped(state, found, command)


def _bumped(state: State, found: TransactionalId, command: EndTxn) -> TransactionEnded:
    """Return the record that ends the transaction, with the producer's next epoch, or a new id if none is left."""
    is_exhausted = found.producer_epoch >= EXHAUSTED_EPOCH
    return TransactionEnded(
        producer_id=found.producer_id,
        committed=command.committed,
        next_producer_id=state.next_producer_id if is_exhausted else found.producer_id,
        next_producer_epoch=0 if is_exhausted else found.producer_epoch + 1,
        is_by_coordinator=found.producer_epoch >= LAST_EPOCH,
    )


def _abort(turn: Turn, found: TransactionalId) -> None:
    """Abort a transaction after a timeout or for an operator, and increase the epoch to fence the producer."""
    record = TransactionEnded(
        producer_id=found.producer_id,
        committed=False,
        next_producer_id=found.producer_id,
        next_producer_epoch=found.producer_epoch + 1,
        is_by_coordinator=True,
    )
    turn.journal(JournalRecord(transaction_ended=record))


def abort_txn(turn: Turn, command: AbortTxn) -> Reply:
    """Abort a transaction for an operator, in all its partitions and groups (S21)."""
    try:
        found = _find_for_abort(turn.state, command)
    except Refused as refused:
        return Reply(txn_aborted=Outcome(error_code=refused.code))
    _abort(turn, found)
    return Reply(txn_aborted=Outcome())


def _find_for_abort(state: State, command: AbortTxn) -> TransactionalId:
    if command.transactional_id:
        found = state.transactional_ids.get(command.transactional_id)
        if found is None:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    else:
        found = state.producers.get(command.producer_id)
        if found is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if command.producer_epoch != found.producer_epoch:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    if not found.is_ongoing:
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    return found


def tick_transactions(turn: Turn) -> None:
    """Abort transactions that have exceeded their timeouts, and increase the epochs (S8).

    A tick processes a limited number of partitions; the next tick continues.
    """
    state = turn.state
    left = MAX_PER_TICK
    for producer_id in state.transaction_deadlines.due(turn.now_ms, left):
        if left <= 0:
            break
        found = state.producers[producer_id]
        _abort(turn, found)
        left -= 1 + len(found.partitions)


def replay_transaction_ended(state: State, record: TransactionEnded, now_ms: int) -> None:
    """End the transaction with the flip, and set the next producer id and epoch."""
    found = state.producers[record.producer_id]
    event = TransactionEvent.COMMIT if record.committed else TransactionEvent.ABORT
    if found.is_ongoing:
        producer_id, epoch = record.next_producer_id, record.next_producer_epoch
        flip(state, found, producer_id, epoch, now_ms, committed=record.committed)
    else:
        found.start_time_ms = now_ms  # as Kafka does when it aborts an empty transaction
    found.apply(event)
    # The producer never had the coordinator's own epoch: its last epoch is the one before that.
    ended = (found.producer_id, min(found.producer_epoch, EXHAUSTED_EPOCH))
    has_moved = ended != (record.next_producer_id, record.next_producer_epoch)
    if has_moved:
        found.ended_producer_id, found.ended_producer_epoch = ended
        found.is_ended_by_coordinator = record.is_by_coordinator
        found.last_producer_epoch = ended[
            1
        ]  # so that its producer can continue as described in KIP-360
        if record.next_producer_id != ended[0]:
            found.previous_producer_id = ended[0]
    go_on_as(state, found, record.next_producer_id, record.next_producer_epoch, now_ms)


def flip(
    state: State,
    found: TransactionalId,
    next_producer_id: int,
    next_producer_epoch: int,
    now_ms: int,
    *,
    committed: bool,
) -> None:
    """Apply the transaction's outcome in all its partitions and groups, in one step."""
    producer_epoch = _ended_epoch(found, next_producer_id, next_producer_epoch)
    producer_id = found.producer_id
    for key, ranges in found.partitions.items():
        partition = state.partitions.get(key)
        if not ranges or partition is None:  # its topic was deleted (S6)
            continue
        partition.note_stable(now_ms)
        del partition.ongoing[producer_id]
        partition.producers[producer_id].end_transaction(producer_epoch, now_ms)
        killed = None if committed else partition.kill(ranges)
        delta = state.changed(partition)
        if delta is not None and killed:
            delta.dead = to_little_endian(killed)
    if committed:
        state.unsettled.add(found.transaction, found.partitions, state.partitions)
    if found.group_ids:
        state.groups.end_transaction(producer_id, committed)
    state.charge_partitions(found, -len(found.partitions))
    found.partitions = {}
    size = sum(map(size_of_group_of_transaction, found.group_ids))
    state.id_owners.charge(found.transactional_id, -size)
    found.group_ids = {}
    state.transaction_deadlines.discard(producer_id)


def _ended_epoch(found: TransactionalId, next_producer_id: int, next_producer_epoch: int) -> int:
    """Return the epoch of the markers that Kafka would write: the next one, even if the producer id changes."""
    is_same = next_producer_id == found.producer_id
    return next_producer_epoch if is_same else found.producer_epoch + 1


def go_on_as(
    state: State, found: TransactionalId, producer_id: int, producer_epoch: int, now_ms: int
) -> None:
    """Set the next producer id and epoch of a transactional id that has no open transaction."""
    if producer_id != found.producer_id:
        state.producers.pop(found.producer_id, None)
        state.producers[producer_id] = found
        state.give_producer_id(producer_id, now_ms)
    found.producer_id = producer_id
    found.producer_epoch = producer_epoch
    found.last_update_ms = now_ms
    state.expirations.set(found.transactional_id, now_ms + TRANSACTIONAL_ID_EXPIRATION_MS)
    found.log_offset = state.internal.take_transaction(found.transactional_id)


VERBS: Final = (
    Verb(end_txn, needs=of_transaction),
    Verb(abort_txn),
)
REPLAYS: Final = (replay_transaction_ended,)
