"""Producer ids: InitProducerId with or without a transactional id, and expiration of transactional ids (S8)."""

from collections.abc import Iterator
from typing import Final

from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import Need, of_transaction
from lacuna.controlplane.state.settings import (
    MAX_PER_TICK,
    TRANSACTION_MAX_TIMEOUT_MS,
)
from lacuna.controlplane.state.state import State, size_of_transactional_id
from lacuna.controlplane.state.transactional import (
    EXHAUSTED_EPOCH,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionalId,
    TransactionEvent,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import (
    JournalRecord,
    ProducerInitialized,
    TransactionalIdsExpired,
)
from lacuna.controlplane.v1.transactions_pb2 import InitProducerId, ProducerIdentity
from lacuna.controlplane.verbs.outcomes import flip, go_on_as
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def init_producer_id(turn: Turn, command: InitProducerId) -> Reply:
    """Assign a new producer id or, for a known transactional id, the next epoch of its id (S8, KIP-360)."""
    try:
        record = _initialize(turn, command)
    except Refused as refused:
        answer = ProducerIdentity(
            error_code=refused.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
        return Reply(producer_id_initialized=answer)
    turn.journal(JournalRecord(producer_initialized=record))
    answer = ProducerIdentity(producer_id=record.producer_id, producer_epoch=record.producer_epoch)
    return Reply(producer_id_initialized=answer)


def _initialize(turn: Turn, command: InitProducerId) -> ProducerInitialized:
    state = turn.state
    if not command.has_transactional_id:
        return ProducerInitialized(
            producer_id=state.next_producer_id,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            previous_producer_id=NO_PRODUCER_ID,
        )
    if not command.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (command.producer_id < 0) != (command.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_REQUEST, "a producer id and its epoch must be sent together"
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
        size = size_of_transactional_id(command.transactional_id)
        if not state.has_room_for_ids(command.transactional_id, turn.principal, size):
            raise Refused(ErrorCode.POLICY_VIOLATION)
        record.principal = turn.principal
        _fill(record, state.next_producer_id, 0, NO_PRODUCER_EPOCH, NO_PRODUCER_ID)
    elif command.producer_id >= 0:
        _reinitialize(state, found, command, record)
    else:
        _bump(state, found, record, last_producer_epoch=NO_PRODUCER_EPOCH)
    return record


def _reinitialize(
    state: State, found: TransactionalId, command: InitProducerId, record: ProducerInitialized
) -> None:
    """Let a producer continue after an error (KIP-360). A retry receives the original answer."""
    is_same = command.producer_id == found.producer_id
    if is_same and found.is_current(command.producer_epoch):
        _bump(state, found, record, last_producer_epoch=found.producer_epoch)
        return
    is_rolled_over = (
        command.producer_id == found.previous_producer_id
        and command.producer_epoch >= EXHAUSTED_EPOCH
    )
    is_retry = command.producer_epoch == found.last_producer_epoch and (is_same or is_rolled_over)
    if not is_retry or found.is_ongoing:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if found.producer_epoch >= LAST_EPOCH:  # used by the coordinator
        _bump(state, found, record, last_producer_epoch=found.last_producer_epoch)
        return
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


def replay_producer_initialized(state: State, record: ProducerInitialized, now_ms: int) -> None:
    """Store a producer id and epoch, and abort the transactional id's ongoing transaction, if any."""
    state.give_producer_id(record.producer_id, now_ms)
    if not record.has_transactional_id:
        return
    found = state.transactional_ids.get(record.transactional_id)
    if found is None:
        found = TransactionalId(record.transactional_id)
        state.add_transactional_id(found, record.principal)
    elif found.is_ongoing:
        flip(state, found, record.producer_id, record.producer_epoch, now_ms, committed=False)
    found.apply(TransactionEvent.INIT)
    found.start_time_ms = NO_TIMESTAMP
    found.transaction_timeout_ms = record.transaction_timeout_ms
    found.last_producer_epoch = record.last_producer_epoch
    found.previous_producer_id = record.previous_producer_id
    found.ended_producer_id = NO_PRODUCER_ID
    found.ended_producer_epoch = NO_PRODUCER_EPOCH
    found.is_ended_by_coordinator = False
    go_on_as(state, found, record.producer_id, record.producer_epoch, now_ms)


def tick_transactional_ids(turn: Turn) -> None:
    """Expire transactional ids that have been unused for transactional.id.expiration.ms."""
    due = turn.state.expirations.due(turn.now_ms, MAX_PER_TICK)
    if due:
        record = TransactionalIdsExpired(transactional_ids=due)
        turn.journal(JournalRecord(transactional_ids_expired=record))


def replay_transactional_ids_expired(
    state: State, record: TransactionalIdsExpired, now_ms: int
) -> None:
    for transactional_id in record.transactional_ids:
        found = state.drop_transactional_id(transactional_id)
        del state.producers[found.producer_id]
        state.expirations.discard(transactional_id)
        state.internal.drop_transaction(transactional_id, now_ms)


def _needs(command: InitProducerId, state: State) -> Iterator[Need]:
    if command.has_transactional_id:
        yield from of_transaction(command, state)
    else:
        yield Need((Operation.WRITE,), ResourceType.TOPIC, None)


VERBS: Final = (Verb(init_producer_id, needs=_needs),)
REPLAYS: Final = (
    replay_producer_initialized,
    replay_transactional_ids_expired,
)
