"""Tests clients with SASL settings at a listener without SASL."""

import threading

from confluent_kafka import KafkaError, Producer

from lacuna.testing import Cluster


def test_librdkafka_says_that_authentication_failed(lacuna_cluster: Cluster) -> None:
    """Without an answer to the handshake, it assumes that the broker is too old for SASL."""
    failed = threading.Event()
    reasons: list[str] = []

    def heard(error: KafkaError) -> None:
        reasons.append(error.str())
        if error.code() == KafkaError._AUTHENTICATION:
            failed.set()

    producer = Producer(
        {
            "bootstrap.servers": lacuna_cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "user",
            "sasl.password": "secret",
            "error_cb": heard,
        }
    )
    for _ in range(120):
        producer.poll(0.5)
        if failed.is_set():
            break
    assert failed.is_set(), reasons
    assert "not valid in current SASL state" in "".join(reasons)
