"""What errors of librdkafka mean to whoever typed a command, and what to do about them."""

from typing import Final

from confluent_kafka import KafkaError

from lacuna.cli.answers import HINTS
from lacuna.controlplane.shared.errors import ErrorCode

_DAMAGED: Final = (
    "what the object store has of it is damaged; `lacuna verify` finds where, and what that affects"
)
_HINTS: Final = {
    KafkaError.INVALID_MSG: _DAMAGED,
    KafkaError._BAD_MSG: _DAMAGED,
    KafkaError._BAD_COMPRESSION: _DAMAGED,
    KafkaError._TIMED_OUT: "no agent answered in time: is the cluster running?",
    KafkaError._MSG_TIMED_OUT: "no agent took it in time: is the cluster running?",
    KafkaError._TRANSPORT: "the connection to the agent broke: is the cluster running?",
    KafkaError._ALL_BROKERS_DOWN: "no agent answers: is the cluster running?",
    KafkaError._FENCED: "a newer producer uses this transactional id; choose another one",
}


def told(error: KafkaError) -> str:
    """One line that says what happened and what to do."""
    code = error.code()
    if hint := _HINTS.get(code):
        return hint
    try:
        hint = HINTS.get(ErrorCode(code), "")
    except ValueError:  # one of librdkafka's own
        hint = ""
    text: str = error.str()
    return hint or text.removeprefix("Broker: ").removeprefix("Local: ")
