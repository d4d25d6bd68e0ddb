"""AddPartitionsToTxn, AddOffsetsToTxn and TxnOffsetCommit: partitions and groups join a transaction (S4, S9)."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.rights import Need, of_transaction, on_topics
from lacuna.controlplane.state.settings import MOST_GROUPS_OF_TRANSACTION
from lacuna.controlplane.state.state import State, size_of_group_of_transaction
from lacuna.controlplane.state.transactional import TransactionalId, TransactionEvent
from lacuna.controlplane.v1.cluster_pb2 import Outcome, Outcomes, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.groups_pb2 import TxnOffsetCommit
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, TransactionJoined
from lacuna.controlplane.v1.transactions_pb2 import AddOffsetsToTxn, AddPartitionsToTxn
from lacuna.controlplane.verbs.groups.committing import commit_in_transaction
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

_NONE: Final = int(ErrorCode.NONE)


def add_partitions_to_txn(turn: Turn, command: AddPartitionsToTxn) -> Reply:
    """Add all partitions to a transaction, or none. With `verify_only`, only check whether each was added."""
    state = turn.state
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
    new = set(keys) - found.partitions.keys()
    if new and not state.has_room_for_partitions(found, len(new)):
        return _added(_NONE, [ErrorCode.POLICY_VIOLATION] * len(keys))
    if new or not found.is_ongoing:
        join_partitions(turn, found.producer_id, _serial(state, found), command.partitions)
    return _added(_NONE, [_NONE] * len(keys))


def join_partitions(
    turn: Turn, producer_id: int, transaction: int, partitions: Iterable[TopicPartition]
) -> None:
    """Journal that partitions join the producer's open transaction or, if none is open, a new one."""
    joined = TransactionJoined(
        producer_id=producer_id, transaction=transaction, partitions=partitions
    )
    turn.journal(JournalRecord(transaction_joined=joined))


def _added(code: int, codes: Sequence[int]) -> Reply:
    return Reply(partitions_added_to_txn={"error_code": code, "error_codes": codes})


def _authenticate(
    state: State, transactional_id: str, producer_id: int, producer_epoch: int
) -> TransactionalId:
    """Return the transactional id. Raises Refused unless the producer id and epoch are current."""
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    found = state.transactional_ids.get(transactional_id)
    if found is None or found.producer_id != producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not found.is_current(producer_epoch):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    return found


def _serial(state: State, found: TransactionalId) -> int:
    """Return the serial number of the transaction that is open or about to open."""
    return found.transaction if found.is_ongoing else state.next_transaction


def add_offsets_to_txn(turn: Turn, command: AddOffsetsToTxn) -> Reply:
    """Add a group to a transaction, so that TxnOffsetCommit can commit its offsets."""
    try:
        found = _authenticate(
            turn.state, command.transactional_id, command.producer_id, command.producer_epoch
        )
    except Refused as refused:
        return Reply(offsets_added_to_txn=Outcome(error_code=refused.code))
    if not (found.is_ongoing and command.group_id in found.group_ids):
        if not _has_room_for_group(turn, found, command.group_id):
            answer = Outcome(error_code=ErrorCode.POLICY_VIOLATION)
            return Reply(offsets_added_to_txn=answer)
        _join_group(turn, found, command.group_id)
    return Reply(offsets_added_to_txn=Outcome())


def _has_room_for_group(turn: Turn, found: TransactionalId, group_id: str) -> bool:
    if len(found.group_ids) >= MOST_GROUPS_OF_TRANSACTION:
        return False
    size = size_of_group_of_transaction(group_id)
    return turn.state.has_room_for_ids(found.transactional_id, turn.principal, size)


def _join_group(turn: Turn, found: TransactionalId, group_id: str) -> None:
    record = TransactionJoined(
        producer_id=found.producer_id, transaction=_serial(turn.state, found), group_id=group_id
    )
    turn.journal(JournalRecord(transaction_joined=record))


def txn_offset_commit(turn: Turn, command: TxnOffsetCommit) -> Reply:
    """Store offsets as pending in a transaction, after checking the transaction and then the group (S9, S26).

    As in Kafka, with TV2 the group joins the transaction first, even if its offsets are then rejected (KIP-890).
    """
    try:
        found = _authenticate(
            turn.state, command.transactional_id, command.producer_id, command.producer_epoch
        )
        is_added = found.is_ongoing and command.group_id in found.group_ids
        if not is_added and not command.adds_group:
            raise Refused(ErrorCode.INVALID_TXN_STATE)
        if not is_added and not _has_room_for_group(turn, found, command.group_id):
            raise Refused(ErrorCode.POLICY_VIOLATION)
    except Refused as refused:
        code = refused.code
        if code is ErrorCode.PRODUCER_FENCED:  # the error that Kafka returns after verification
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        answer = Outcomes(error_code=code, error_codes=[code] * len(command.offsets))
        return Reply(offsets_committed=answer)
    if command.group_id and not is_added:
        _join_group(turn, found, command.group_id)
    return commit_in_transaction(turn, command)


def start_transaction(state: State, found: TransactionalId, transaction: int, now_ms: int) -> None:
    """Open a transaction, whose timeout begins now."""
    found.apply(TransactionEvent.JOIN)
    found.transaction = transaction
    found.start_time_ms = now_ms
    found.last_update_ms = now_ms
    state.next_transaction = max(state.next_transaction, transaction + 1)
    state.transaction_deadlines.set(found.producer_id, now_ms + found.transaction_timeout_ms)
    state.expirations.discard(found.transactional_id)
    found.log_offset = state.internal.take_transaction(found.transactional_id)


def replay_transaction_joined(state: State, record: TransactionJoined, now_ms: int) -> None:
    """Add partitions or a group to a transaction, opening it if necessary."""
    found = state.producers[record.producer_id]
    if found.is_ongoing:
        found.log_offset = state.internal.take_transaction(found.transactional_id)
    else:
        start_transaction(state, found, record.transaction, now_ms)
    found.last_update_ms = now_ms
    before = len(found.partitions)
    for partition in record.partitions:
        found.partitions.setdefault(key_of(partition), array("q"))
    state.charge_partitions(found, len(found.partitions) - before)
    if record.group_id and record.group_id not in found.group_ids:
        found.group_ids[record.group_id] = None
        size = size_of_group_of_transaction(record.group_id)
        state.id_owners.charge(found.transactional_id, size)


def _needs_for_partitions(command: AddPartitionsToTxn, state: State) -> Iterator[Need]:
    yield from of_transaction(command, state)
    yield from on_topics(Operation.WRITE, command.partitions, state)


def _needs_for_group(command: AddOffsetsToTxn | TxnOffsetCommit, state: State) -> Iterator[Need]:
    yield from of_transaction(command, state)
    yield Need((Operation.READ,), ResourceType.GROUP, command.group_id)


def _needs_for_offsets(command: TxnOffsetCommit, state: State) -> Iterator[Need]:
    """Return the rights that committing offsets requires.

    Kafka requires READ on the topics, but the sink may have only WRITE on the topics under which it stores its
    progress.
    """
    yield from _needs_for_group(command, state)
    yield from on_topics(Operation.DESCRIBE, (each.partition for each in command.offsets), state)


VERBS: Final = (
    Verb(add_partitions_to_txn, needs=_needs_for_partitions),
    Verb(add_offsets_to_txn, needs=_needs_for_group),
    Verb(txn_offset_commit, needs=_needs_for_offsets),
)
REPLAYS: Final = (replay_transaction_joined,)
