"""Explains librdkafka's errors and their remedies."""

from typing import Final

from confluent_kafka import KafkaError

from lacuna.cli.answers import HINTS
from lacuna.controlplane.shared.errors import ErrorCode

_DAMAGED: Final = (
    "its records in the object store are damaged; `lacuna verify` shows where, and which records "
    "are affected"
)
_HINTS: Final = {
    KafkaError.INVALID_MSG: _DAMAGED,
    KafkaError._BAD_MSG: _DAMAGED,
    KafkaError._BAD_COMPRESSION: _DAMAGED,
    KafkaError._TIMED_OUT: "no agent answered in time: check that the cluster is running",
    KafkaError._MSG_TIMED_OUT: "no agent accepted the record in time: check that the cluster is running",
    KafkaError._TRANSPORT: "the connection to the agent broke: check that the cluster is running",
    KafkaError._ALL_BROKERS_DOWN: "no agent answers: check that the cluster is running",
    KafkaError._FENCED: "a newer producer uses this transactional id; choose another one",
}


def explain_error(error: KafkaError) -> str:
    code = error.code()
    if hint := _HINTS.get(code):
        return hint
    try:
        hint = HINTS.get(ErrorCode(code), "")
    except ValueError:  # an error inside librdkafka
        hint = ""
    text: str = error.str()
    return hint or text.removeprefix("Broker: ").removeprefix("Local: ")
