"""Tests that errors of librdkafka and agents appear as messages that say what to do."""

import errno
import socket

import pytest
from confluent_kafka import KafkaError

from lacuna.base.errors import UserError
from lacuna.cli.answers import check
from lacuna.cli.records.librdkafka_errors import explain_error
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.kafka import plain


def test_damage_names_verify() -> None:
    assert "`lacuna verify`" in explain_error(KafkaError(KafkaError.INVALID_MSG))
    assert "`lacuna topics list`" in explain_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert explain_error(KafkaError(KafkaError._INVALID_ARG)) == "Invalid argument or configuration"


def test_no_code_is_told_as_bare_words() -> None:
    for code in set(ErrorCode) - {ErrorCode.NONE}:
        with pytest.raises(UserError) as raised:
            check(code, "it")
        assert str(raised.value) != f"it: {code.name.lower().replace('_', ' ')}"


def test_errors_of_the_system_are_told_without_numbers() -> None:
    assert plain(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")) == (
        "connection refused"
    )
    assert plain(TimeoutError()) == "timed out"
    assert plain(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"
