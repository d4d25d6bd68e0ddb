"""A transactional id: its producer id and epoch, its transaction, and its table of state transitions."""

from array import array
from enum import Enum
from typing import Final

from lacuna.controlplane.shared.partitions import PartitionKey

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

#: The last epoch (Short.MAX_VALUE), which no producer may use: as in Kafka, the coordinator reserves it for fencing.
EXHAUSTED_EPOCH: Final = 32766
LAST_EPOCH: Final = 32767


class TransactionState(Enum):
    """The states of a transactional id, with Kafka's names, but without the Prepare states, since the flip is one step
    (S1).
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class TransactionEvent(Enum):
    INIT = "init"
    JOIN = "join"
    COMMIT = "commit"
    ABORT = "abort"


_State = TransactionState
_Event = TransactionEvent

#: state -> event -> next state. An unlisted event is illegal in that state.
TRANSITIONS: Final[dict[TransactionState, dict[TransactionEvent, TransactionState]]] = {
    _State.EMPTY: {
        _Event.INIT: _State.EMPTY,
        _Event.JOIN: _State.ONGOING,
        _Event.ABORT: _State.COMPLETE_ABORT,
    },
    _State.ONGOING: {
        _Event.INIT: _State.EMPTY,
        _Event.JOIN: _State.ONGOING,
        _Event.COMMIT: _State.COMPLETE_COMMIT,
        _Event.ABORT: _State.COMPLETE_ABORT,
    },
    _State.COMPLETE_COMMIT: {
        _Event.INIT: _State.EMPTY,
        _Event.JOIN: _State.ONGOING,
        _Event.ABORT: _State.COMPLETE_ABORT,
    },
    _State.COMPLETE_ABORT: {
        _Event.INIT: _State.EMPTY,
        _Event.JOIN: _State.ONGOING,
        _Event.ABORT: _State.COMPLETE_ABORT,
    },
}


class IllegalTransition(ValueError):
    """A journal record is impossible in the current state: it comes from another journal, or there is a bug."""


class TransactionalId:
    """The durable state of one transactional id. Only replay changes it."""

    __slots__ = (
        "ended_producer_epoch",
        "ended_producer_id",
        "group_ids",
        "is_ended_by_coordinator",
        "is_ongoing",
        "last_producer_epoch",
        "last_update_ms",
        "log_offset",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_time_ms",
        "state",
        "transaction",
        "transaction_timeout_ms",
        "transactional_id",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        #: An InitProducerId with this epoch is a retry, and receives the current epoch again (KIP-360).
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.previous_producer_id = NO_PRODUCER_ID
        self.transaction_timeout_ms = 0
        self.state = TransactionState.EMPTY
        #: Whether a transaction is open. Cached, because each command checks it several times.
        self.is_ongoing = False
        self.transaction = 0
        self.start_time_ms = NO_TIMESTAMP
        self.last_update_ms = 0
        self.log_offset = 0  # of its newest record in __transaction_state
        #: With TV2, an EndTxn with this producer id and epoch is a retry of the one that returned the
        #: current ones (S5).
        self.ended_producer_id = NO_PRODUCER_ID
        self.ended_producer_epoch = NO_PRODUCER_EPOCH
        self.is_ended_by_coordinator = False  # ended by a timeout or an operator
        #: partition -> offset ranges of this transaction in the partition: first, end, first, end, …
        self.partitions: dict[PartitionKey, array[int]] = {}
        self.group_ids: dict[str, None] = {}

    def apply(self, event: TransactionEvent) -> None:
        """Move to the next state. Raises IllegalTransition if the table has no transition for the event."""
        next_state = TRANSITIONS[self.state].get(event)
        if next_state is None:
            raise IllegalTransition(
                f"transactional id {self.transactional_id!r}: {event.value} cannot happen in state {self.state.value}"
            )
        self.enter(next_state)

    def enter(self, state: TransactionState) -> None:
        self.state = state
        self.is_ongoing = state is TransactionState.ONGOING

    def is_current(self, producer_epoch: int) -> bool:
        """Whether a producer with this epoch may act."""
        return self.producer_epoch == producer_epoch < LAST_EPOCH

    def allows(self, event: TransactionEvent) -> bool:
        """Whether the event is legal in the current state."""
        return event in TRANSITIONS[self.state]
