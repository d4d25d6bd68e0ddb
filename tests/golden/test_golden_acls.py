"""Tests the steps of acls.py, Kafka's own kafka-acls.sh and librdkafka with limited rights, against Kafka 4.4."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Producer

from tests.golden.acls import ADMIN, PASSWORD, SETS, outcomes
from tests.golden.broker import jars
from tests.golden.capture_acls import GOLDEN
from tests.golden.guarded import guarded

KAFKA: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())

_WITHOUT_PLUGIN: Final = (
    "descriptions of topologies are kept here; Kafka needs a plugin for them (KIP-1331)"
)
_BY_ENUM: Final = (
    "a value that cannot be in an ACL is INVALID_REQUEST here; Kafka fails to read the request"
)
#: Why the outcome of a step differs here for users who are allowed to take it, by step.
EXPLAINED: Final = {
    "metadata v9 2": "the answer has the new topic already; Kafka's first one has an error",
    "fetch v12 2": "any agent serves any partition, also to what says that it is a replica; Kafka knows its replicas",
    "streams_group_topology_description_update v0 1": _WITHOUT_PLUGIN,
    "streams_group_topology_description_update v0 2": _WITHOUT_PLUGIN,
    "alter_share_group_offsets v0 1": "Kafka shows the id of a topic that the user may not see",
    "create_acls v3 3": _BY_ENUM,
    "create_acls v3 4": _BY_ENUM,
    "create_acls v3 5": _BY_ENUM,
    "create_acls v3 6": _BY_ENUM,
    "describe_user_scram_credentials v0 1": "Kafka adds a user without a name to its refusal",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Lacuna's outcomes."""
    with guarded(tmp_path_factory.mktemp("acls")) as bootstrap:
        yield outcomes(bootstrap)


@pytest.mark.parametrize("name", SETS)
def test_the_answers_are_those_of_kafka(found: dict[str, dict[str, Any]], name: str) -> None:
    here = found[name]
    assert here.keys() == KAFKA[name].keys()
    differing = {step for step, kept in KAFKA[name].items() if here[step] != kept}
    assert differing <= EXPLAINED.keys()


def test_every_explanation_is_needed(found: dict[str, dict[str, Any]]) -> None:
    """No explanation hides a denial that Kafka does not issue, or the reverse."""
    differing = [
        (step, str(kept), str(found[name][step]))
        for name, steps in KAFKA.items()
        for step, kept in steps.items()
        if found[name][step] != kept
    ]
    assert {step for step, *_ in differing} == EXPLAINED.keys()
    for step, there, here in differing:
        assert _denials(there) == _denials(here), step


def _denials(outcome: str) -> set[str]:
    return set(re.findall(r"(?<=error_code': )(?:29|30|31|53|65)\b", outcome))


Run = Callable[..., str]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("acls")) as address:
        yield address


@pytest.fixture(scope="module")
def acls(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run kafka-acls.sh as the superuser."""
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


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs a JDK and Maven"
)
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
