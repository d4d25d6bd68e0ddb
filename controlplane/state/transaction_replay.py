"""Replays of records about transactions. The flip of an outcome is one of them (S1)."""

from array import array

from controlplane.extents import to_little_endian
from controlplane.state.partition import key_of
from controlplane.state.settings import TRANSACTIONAL_ID_EXPIRATION_MS
from controlplane.state.state import State
from controlplane.state.transactional import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionalId,
    TransactionEvent,
)
from controlplane.v1.journal_pb2 import (
    ProducerInitialized,
    TransactionalIdsExpired,
    TransactionEnded,
    TransactionJoined,
)


def start_transaction(state: State, found: TransactionalId, transaction: int, now_ms: int) -> None:
    """Opens a transaction; its deadline runs from here."""
    found.apply(TransactionEvent.JOIN)
    found.transaction = transaction
    found.start_time_ms = now_ms
    found.last_update_ms = now_ms
    state.next_transaction = max(state.next_transaction, transaction + 1)
    state.transaction_deadlines.set(found.producer_id, now_ms + found.transaction_timeout_ms)
    state.expirations.discard(found.transactional_id)


def replay_producer(state: State, record: ProducerInitialized, now_ms: int) -> None:
    """InitProducerId: a producer id and epoch; what was ongoing under the old one is aborted."""
    state.next_producer_id = max(state.next_producer_id, record.producer_id + 1)
    if not record.has_transactional_id:
        return
    found = state.transactional_ids.get(record.transactional_id)
    if found is None:
        found = TransactionalId(record.transactional_id)
        state.transactional_ids[record.transactional_id] = found
    elif found.is_ongoing:
        _flip(state, found, committed=False)
    found.apply(TransactionEvent.INIT)
    found.start_time_ms = NO_TIMESTAMP
    found.transaction_timeout_ms = record.transaction_timeout_ms
    found.last_producer_epoch = record.last_producer_epoch
    found.previous_producer_id = record.previous_producer_id
    found.ended_producer_id = NO_PRODUCER_ID
    found.ended_producer_epoch = NO_PRODUCER_EPOCH
    found.is_ended_by_coordinator = False
    _set_producer(state, found, record.producer_id, record.producer_epoch)
    _touch(state, found, now_ms)


def replay_joined(state: State, record: TransactionJoined, now_ms: int) -> None:
    """Partitions or a group are part of the transaction, which may begin with it."""
    found = state.producers[record.producer_id]
    if not found.is_ongoing:
        start_transaction(state, found, record.transaction, now_ms)
    found.last_update_ms = now_ms
    for partition in record.partitions:
        found.partitions.setdefault(key_of(partition), array("q"))
    if record.group_id:
        found.group_ids[record.group_id] = None


def replay_ended(state: State, record: TransactionEnded, now_ms: int) -> None:
    """The flip, and the producer id and epoch that go on from here."""
    found = state.producers[record.producer_id]
    event = TransactionEvent.COMMIT if record.committed else TransactionEvent.ABORT
    if found.is_ongoing:
        _flip(state, found, committed=record.committed)
    else:
        found.start_time_ms = now_ms  # as Kafka for the abort of an empty transaction
    found.apply(event)
    ended = (found.producer_id, found.producer_epoch)
    has_moved = ended != (record.next_producer_id, record.next_producer_epoch)
    if has_moved:
        found.ended_producer_id, found.ended_producer_epoch = ended
        found.is_ended_by_coordinator = record.is_by_coordinator
        found.last_producer_epoch = ended[1]  # so that its producer can go on by KIP-360
        if record.next_producer_id != ended[0]:
            found.previous_producer_id = ended[0]
    _set_producer(state, found, record.next_producer_id, record.next_producer_epoch)
    _touch(state, found, now_ms)


def replay_transactional_ids_expired(
    state: State, record: TransactionalIdsExpired, _now_ms: int
) -> None:
    """Transactional ids that nobody used for long."""
    for transactional_id in record.transactional_ids:
        found = state.transactional_ids.pop(transactional_id)
        del state.producers[found.producer_id]
        state.expirations.discard(transactional_id)


def _flip(state: State, found: TransactionalId, *, committed: bool) -> None:
    """One outcome for all partitions and group offsets at once."""
    producer_id = found.producer_id
    for key, ranges in found.partitions.items():
        if not ranges:
            continue
        partition = state.partitions[key]
        del partition.ongoing[producer_id]
        killed = None if committed else partition.kill(ranges)
        delta = state.changed(partition)
        if delta is not None and killed:
            delta.dead = to_little_endian(killed)
    if found.group_ids:
        state.groups.end_transaction(producer_id, committed)
    found.partitions = {}
    found.group_ids = {}
    state.transaction_deadlines.discard(producer_id)


def _set_producer(
    state: State, found: TransactionalId, producer_id: int, producer_epoch: int
) -> None:
    if producer_id != found.producer_id:
        state.producers.pop(found.producer_id, None)
        state.producers[producer_id] = found
        state.next_producer_id = max(state.next_producer_id, producer_id + 1)
    found.producer_id = producer_id
    found.producer_epoch = producer_epoch


def _touch(state: State, found: TransactionalId, now_ms: int) -> None:
    found.last_update_ms = now_ms
    state.expirations.set(found.transactional_id, now_ms + TRANSACTIONAL_ID_EXPIRATION_MS)
