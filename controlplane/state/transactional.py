"""A transactional id: its producer id and epoch, and its transaction. Transitions are data."""

from array import array
from enum import Enum
from typing import Final

from controlplane.state.partition import PartitionKey

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

#: Kafka keeps Short.MAX_VALUE for the coordinator's own fencing: a producer never gets it from
#: InitProducerId.
EXHAUSTED_EPOCH: Final = 32766
LAST_EPOCH: Final = 32767


class TransactionState(Enum):
    """As Kafka names them; Prepare* do not exist here, since the flip is one step (S1)."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class TransactionEvent(Enum):
    """What moves a transactional id from state to state."""

    INIT = "init"
    JOIN = "join"
    COMMIT = "commit"
    ABORT = "abort"


_State = TransactionState
_Event = TransactionEvent

#: state -> event -> next state. An event that is not listed is illegal there.
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
    """A record that cannot follow the state: the journal is not this machine's, or the machine is
    wrong.
    """


class TransactionalId:
    """Durable state of one transactional id. Only replay changes it."""

    __slots__ = (
        "ended_producer_epoch",
        "ended_producer_id",
        "group_ids",
        "is_ended_by_coordinator",
        "last_producer_epoch",
        "last_update_ms",
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
        #: KIP-360: InitProducerId with this epoch is a retry and gets the current one again.
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.previous_producer_id = NO_PRODUCER_ID
        self.transaction_timeout_ms = 0
        self.state = TransactionState.EMPTY
        self.transaction = 0
        self.start_time_ms = NO_TIMESTAMP
        self.last_update_ms = 0
        #: S5, TV2: EndTxn of this producer id and epoch is a retry of the one that gave the current
        #: ones.
        self.ended_producer_id = NO_PRODUCER_ID
        self.ended_producer_epoch = NO_PRODUCER_EPOCH
        self.is_ended_by_coordinator = False  # a timeout or an operator ended it
        #: partition -> offset ranges of this transaction there: first, end, first, end, …
        self.partitions: dict[PartitionKey, array[int]] = {}
        self.group_ids: dict[str, None] = {}

    @property
    def is_ongoing(self) -> bool:
        """Whether a transaction is open."""
        return self.state is TransactionState.ONGOING

    def apply(self, event: TransactionEvent) -> None:
        """Moves to the next state; raises IllegalTransition where the table has none."""
        next_state = TRANSITIONS[self.state].get(event)
        if next_state is None:
            raise IllegalTransition(
                f"transactional id {self.transactional_id!r} in state {self.state.value} met {event.value}"
            )
        self.state = next_state

    def allows(self, event: TransactionEvent) -> bool:
        """Whether the table has a transition for the event."""
        return event in TRANSITIONS[self.state]
