"""Tests Kafka's own kafka-acls.sh, and librdkafka as a user with limited rights."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.golden.acls import ADMIN, PASSWORD
from tests.golden.broker import jars
from tests.golden.guarded import guarded

Run = Callable[..., str]

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
    ),
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("acls")) as address:
        yield address


@pytest.fixture(scope="module")
def acls(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run kafka-acls.sh as the super user."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    libs = jars(folder)
    config = folder / "client.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} required username="{ADMIN}" password="{PASSWORD}";\n'
    )

    def run(*arguments: str) -> str:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap]
        command += ["--command-config", str(config), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        return done.stdout

    return run


def _send(bootstrap: str, topic: str) -> KafkaError | None:
    """Send a record as the user `literal`. Return the error if it was rejected."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "literal",
            "sasl.password": PASSWORD,
            "allow.auto.create.topics": True,
        }
    )
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    (error,) = errors
    return error


def test_kafka_acls_adds_lists_and_removes(acls: Run, bootstrap: str) -> None:
    """A producer may write only while its ACLs exist."""
    denied = _send(bootstrap, "orders")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    who = ("--allow-principal", "User:literal", "--producer", "--topic", "orders")
    assert "Adding ACLs" in acls("--add", *who)
    listed = acls("--list", "--topic", "orders")
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert (
            f"principal=User:literal, host=*, operation={operation}, permissionType=ALLOW" in listed
        )
    assert _send(bootstrap, "orders") is None
    prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    acls("--add", "--deny-principal", "User:literal", "--operation", "Write", *prefixed)
    denied = _send(bootstrap, "orders")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    matching = acls("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "patternType=PREFIXED" in matching
    acls("--remove", "--force", *prefixed)
    assert _send(bootstrap, "orders") is None
    acls("--remove", "--force", "--topic", "orders")
    assert "User:literal" not in acls("--list")
