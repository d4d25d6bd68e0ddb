"""Producers and transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, AbortTxn
(S4, S5, S8, S9).
"""

from collections.abc import Sequence
from typing import Final

from controlplane import groups
from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.state.partition import key_of
from controlplane.state.refusals import Refused
from controlplane.state.settings import TRANSACTION_MAX_TIMEOUT_MS
from controlplane.state.state import State
from controlplane.state.transactional import (
    EXHAUSTED_EPOCH,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionalId,
    TransactionEvent,
    TransactionState,
)
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.groups_pb2 import OffsetsCommitted, TxnOffsetCommit
from controlplane.v1.journal_pb2 import (
    JournalRecord,
    ProducerInitialized,
    TransactionEnded,
    TransactionJoined,
)
from controlplane.v1.transactions_pb2 import (
    AbortTxn,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    OffsetsAddedToTxn,
    ProducerIdInitialized,
    TxnAborted,
    TxnEnded,
)

_NONE: Final = int(ErrorCode.NONE)

# InitProducerId


def init_producer_id(state: State, command: InitProducerId, context: Context) -> Decision:
    """A producer id; for a transactional id the same one with its epoch bumped (S8, KIP-360)."""
    try:
        record = _initialize(state, command)
    except Refused as refused:
        answer = ProducerIdInitialized(
            error_code=refused.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
        return Decision(reply=Reply(producer_id_initialized=answer))
    journalled = JournalRecord(now_ms=context.now_ms, producer_initialized=record)
    answer = ProducerIdInitialized(
        producer_id=record.producer_id, producer_epoch=record.producer_epoch
    )
    return Decision(records=[journalled], reply=Reply(producer_id_initialized=answer))


def _initialize(state: State, command: InitProducerId) -> ProducerInitialized:
    if not command.has_transactional_id:
        return ProducerInitialized(
            producer_id=state.next_producer_id,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            previous_producer_id=NO_PRODUCER_ID,
        )
    if not command.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    if (command.producer_id < 0) != (command.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_REQUEST, "a producer id without its epoch, or an epoch alone"
        )
    if not 0 < command.transaction_timeout_ms <= TRANSACTION_MAX_TIMEOUT_MS:
        raise Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    record = ProducerInitialized(
        has_transactional_id=True,
        transactional_id=command.transactional_id,
        transaction_timeout_ms=command.transaction_timeout_ms,
    )
    found = state.transactional_ids.get(command.transactional_id)
    if found is None:
        _fill(record, state.next_producer_id, 0, NO_PRODUCER_EPOCH, NO_PRODUCER_ID)
    elif command.producer_id >= 0:
        _reinitialize(state, found, command, record)
    else:
        _bump(state, found, record, last_producer_epoch=NO_PRODUCER_EPOCH)
    return record


def _reinitialize(
    state: State, found: TransactionalId, command: InitProducerId, record: ProducerInitialized
) -> None:
    """KIP-360: a producer that goes on after an error; a retry gets the answer that it missed."""
    given = (command.producer_id, command.producer_epoch)
    if given == (found.producer_id, found.producer_epoch):
        _bump(state, found, record, last_producer_epoch=found.producer_epoch)
        return
    is_same = command.producer_id == found.producer_id
    is_rolled_over = (
        command.producer_id == found.previous_producer_id
        and command.producer_epoch >= EXHAUSTED_EPOCH
    )
    is_retry = command.producer_epoch == found.last_producer_epoch and (is_same or is_rolled_over)
    if not is_retry or found.is_ongoing:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    _fill(
        record,
        found.producer_id,
        found.producer_epoch,
        found.last_producer_epoch,
        found.previous_producer_id,
    )


def _bump(
    state: State,
    found: TransactionalId,
    record: ProducerInitialized,
    *,
    last_producer_epoch: int,
) -> None:
    if found.producer_epoch >= EXHAUSTED_EPOCH:
        _fill(record, state.next_producer_id, 0, last_producer_epoch, found.producer_id)
    else:
        epoch = found.producer_epoch + 1
        _fill(record, found.producer_id, epoch, last_producer_epoch, NO_PRODUCER_ID)


def _fill(
    record: ProducerInitialized,
    producer_id: int,
    producer_epoch: int,
    last_producer_epoch: int,
    previous_producer_id: int,
) -> None:
    record.producer_id = producer_id
    record.producer_epoch = producer_epoch
    record.last_producer_epoch = last_producer_epoch
    record.previous_producer_id = previous_producer_id


# AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit


def add_partitions_to_txn(state: State, command: AddPartitionsToTxn, context: Context) -> Decision:
    """Adds partitions, or only checks that they were added; all or none."""
    try:
        found = _authenticate(
            state, command.transactional_id, command.producer_id, command.producer_epoch
        )
    except Refused as refused:
        return _added(refused.code, [refused.code] * len(command.partitions))
    keys = [key_of(partition) for partition in command.partitions]
    if command.verify_only:
        codes = [
            ErrorCode.NONE
            if found.is_ongoing and key in found.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for key in keys
        ]
        return _added(ErrorCode.NONE, codes)
    if not state.partitions.keys() >= set(keys):
        codes = [
            ErrorCode.OPERATION_NOT_ATTEMPTED
            if key in state.partitions
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for key in keys
        ]
        return _added(ErrorCode.NONE, codes)
    answer = _added(_NONE, [_NONE] * len(keys))
    if not (found.is_ongoing and found.partitions.keys() >= set(keys)):
        joined = TransactionJoined(
            producer_id=found.producer_id,
            transaction=_serial(state, found),
            partitions=command.partitions,
        )
        answer.records.append(JournalRecord(now_ms=context.now_ms, transaction_joined=joined))
    return answer


def _added(code: int, codes: Sequence[int]) -> Decision:
    reply = Reply(partitions_added_to_txn={"error_code": code, "error_codes": codes})
    return Decision(reply=reply)


def _authenticate(
    state: State, transactional_id: str, producer_id: int, producer_epoch: int
) -> TransactionalId:
    """The transactional id, if the producer is its current one."""
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    found = state.transactional_ids.get(transactional_id)
    if found is None or found.producer_id != producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != producer_epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    return found


def _serial(state: State, found: TransactionalId) -> int:
    """Of the transaction that is open, or is opened now."""
    return found.transaction if found.is_ongoing else state.next_transaction


def add_offsets_to_txn(state: State, command: AddOffsetsToTxn, context: Context) -> Decision:
    """Adds a consumer group, whose offsets TxnOffsetCommit may then commit."""
    try:
        found = _authenticate(
            state, command.transactional_id, command.producer_id, command.producer_epoch
        )
    except Refused as refused:
        return Decision(
            reply=Reply(offsets_added_to_txn=OffsetsAddedToTxn(error_code=refused.code))
        )
    decision = Decision(reply=Reply(offsets_added_to_txn=OffsetsAddedToTxn()))
    if not (found.is_ongoing and command.group_id in found.group_ids):
        decision.records.append(_joined_group(state, found, command.group_id, context))
    return decision


def _joined_group(
    state: State, found: TransactionalId, group_id: str, context: Context
) -> JournalRecord:
    record = TransactionJoined(
        producer_id=found.producer_id, transaction=_serial(state, found), group_id=group_id
    )
    return JournalRecord(now_ms=context.now_ms, transaction_joined=record)


def txn_offset_commit(state: State, command: TxnOffsetCommit, context: Context) -> Decision:
    """Checks the transaction here, the group there; under TV2 the group is added by the way (S9,
    S26).
    """
    try:
        found = _authenticate(
            state, command.transactional_id, command.producer_id, command.producer_epoch
        )
        is_added = found.is_ongoing and command.group_id in found.group_ids
        if not is_added and not command.adds_group:
            raise Refused(ErrorCode.INVALID_TXN_STATE)
    except Refused as refused:
        code = refused.code
        if code is ErrorCode.PRODUCER_FENCED:  # as Kafka's verification tells it to the group
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        answer = OffsetsCommitted(error_code=code, error_codes=[code] * len(command.offsets))
        return Decision(reply=Reply(offsets_committed=answer))
    decision = groups.decide_txn_offset_commit(
        state.groups,
        command,
        context,
        partition_exists=lambda topic_id, index: (topic_id, index) in state.partitions,
    )
    if decision.records and not is_added:
        decision.records.insert(0, _joined_group(state, found, command.group_id, context))
    return decision


# EndTxn, AbortTxn


def end_txn(state: State, command: EndTxn, context: Context) -> Decision:
    """Commits or aborts; a retry gets its first answer (S5)."""
    decide = _end_bumping if command.bumps_epoch else _end_plainly
    try:
        if command.lease_id and command.lease_id not in state.leases:
            # What slept in its buffers is of another time, and under TV1 looks like a right one.
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if not command.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        found = state.transactional_ids.get(command.transactional_id)
        if found is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        record = decide(state, found, command)
    except Refused as refused:
        answer = TxnEnded(
            error_code=refused.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
        return Decision(reply=Reply(txn_ended=answer))
    if record is None:
        return _ended(found.producer_id, found.producer_epoch, [])
    journalled = JournalRecord(now_ms=context.now_ms, transaction_ended=record)
    return _ended(record.next_producer_id, record.next_producer_epoch, [journalled])


def _ended(producer_id: int, producer_epoch: int, records: list[JournalRecord]) -> Decision:
    answer = Reply(txn_ended={"producer_id": producer_id, "producer_epoch": producer_epoch})
    return Decision(records=records, reply=answer)


#: The state in which an outcome is already there.
_DONE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def _end_plainly(_state: State, found: TransactionalId, command: EndTxn) -> TransactionEnded | None:
    """TV1: the epoch stays, so that state and epoch alone tell a retry."""
    if found.producer_id != command.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != command.producer_epoch:
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
    """TV2: the epoch tells a retry, so that a delayed EndTxn never ends the next transaction
    (KIP-890).
    """
    given = (command.producer_id, command.producer_epoch)
    if given == (found.ended_producer_id, found.ended_producer_epoch) and not found.is_ongoing:
        if found.state is _DONE[command.committed]:
            return None
        if found.is_ended_by_coordinator:
            raise Refused(ErrorCode.PRODUCER_FENCED)
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    if found.producer_id != command.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != command.producer_epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    event = TransactionEvent.COMMIT if command.committed else TransactionEvent.ABORT
    if not found.allows(event):
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    is_exhausted = found.producer_epoch >= EXHAUSTED_EPOCH
    return TransactionEnded(
        producer_id=found.producer_id,
        committed=command.committed,
        next_producer_id=state.next_producer_id if is_exhausted else found.producer_id,
        next_producer_epoch=0 if is_exhausted else found.producer_epoch + 1,
    )


def coordinator_abort(found: TransactionalId, now_ms: int, spare_producer_id: int) -> JournalRecord:
    """The abort of a timeout or an operator: the epoch is bumped, so that the producer is fenced.

    `spare_producer_id` is one never used, for when even the coordinator's last epoch is spent.
    """
    is_last = found.producer_epoch >= LAST_EPOCH
    record = TransactionEnded(
        producer_id=found.producer_id,
        committed=False,
        next_producer_id=spare_producer_id if is_last else found.producer_id,
        next_producer_epoch=0 if is_last else found.producer_epoch + 1,
        is_by_coordinator=True,
    )
    return JournalRecord(now_ms=now_ms, transaction_ended=record)


def abort_txn(state: State, command: AbortTxn, context: Context) -> Decision:
    """An operator's abort of the whole transaction (S21)."""
    try:
        found = _find_for_abort(state, command)
    except Refused as refused:
        return Decision(reply=Reply(txn_aborted=TxnAborted(error_code=refused.code)))
    record = coordinator_abort(found, context.now_ms, state.next_producer_id)
    return Decision(records=[record], reply=Reply(txn_aborted=TxnAborted()))


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
