"""Tests real clients over TLS with SCRAM and OAUTHBEARER, including reauthentication (KIP-368)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import aiokafka
import aiokafka.abc
import kafka
import kafka.net.sasl.oauth
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import parse_listeners
from lacuna.agent.security.sasl.mechanism import Answer
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.agent.security.issuer import AUDIENCE, NAME, Issuer
from tests.certificates import Authority

from .hurry import keep_leases
from .jvm import compiled, needs_jdk

VALUES: Final = [b"%d" % number for number in range(20)]
#: The session length announced to clients, and the actual one: a busy machine may delay clients.
SESSION_MS: Final = 2000
LASTING_MS: Final = 600_000
SECONDS: Final = 60.0
SASL_AUTHENTICATE: Final = 36
#: How many SaslAuthenticate requests a mechanism needs.
STEPS: Final = {"SCRAM-SHA-512": 2, "OAUTHBEARER": 1}


@dataclass(frozen=True)
class Guarded:
    """A cluster that authenticates every client, with the credentials that clients need."""

    bootstrap: str
    ca: str
    issuer: Issuer
    cluster: Cluster

    def settings(self, mechanism: str, password: str = "secret") -> dict[str, Any]:
        """Return librdkafka's settings."""
        given: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.ca,
            "sasl.mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return given | {"oauth_cb": self.token}
        return given | {"sasl.username": "alice", "sasl.password": password}

    def python_settings(self, mechanism: str, tokens: Any) -> dict[str, Any]:
        """Return the settings that kafka-python and aiokafka have in common, with a provider of tokens."""
        given = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return given | {"sasl_oauth_token_provider": tokens}
        return given | {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}

    def token(self, _config: str = "") -> tuple[str, float]:
        """Return a token and its expiry (seconds since 1970)."""
        now = time.time()
        return self.issuer.token(now), now + 60

    def topic(self) -> str:
        """Create a topic of one partition. Return its name."""
        name = f"c-{uuid.uuid4().hex[:12]}"
        admin = AdminClient(self.settings("SCRAM-SHA-512"))
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
        return name


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    own = authority.issue("agent")
    (folder / "password").write_text("bootstrap")
    (folder / "token-key").write_text("of sixteen bytes or more")
    users = folder / "users.toml"
    users.write_text(f'admin = "file:{folder}/password"\n')
    with Issuer() as issuer:
        security = SecuritySettings(
            certificate=own.certificate,
            key=own.key,
            users_file=str(users),
            mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            max_reauth_ms=LASTING_MS,
            token_key=f"file:{folder}/token-key",
            oauth_jwks=issuer.url,
            oauth_issuer=NAME,
            oauth_audience=AUDIENCE,
        )
        listeners = parse_listeners("SASL_SSL://127.0.0.1:0")
        parts = AgentParts(agent=AgentSettings(listeners=listeners), security=security)
        with short_sessions(), Cluster(parts=parts) as running:
            keep_leases(running)
            made = Guarded(running.bootstrap, authority.path, issuer, running)
            add_alice(made)
            yield made


@contextlib.contextmanager
def short_sessions() -> Iterator[None]:
    """Agents announce sessions of at most SESSION_MS, and serve them for longer."""
    authenticate = Authentication.authenticate

    async def hurry(session: Authentication, token: bytes) -> tuple[Answer, int]:
        answer, lasts_ms = await authenticate(session, token)
        return answer, min(lasts_ms, SESSION_MS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Authentication, "authenticate", hurry)
        yield


def add_alice(guarded: Guarded) -> None:
    """The operator's user from the config file adds the first user that the cluster stores."""
    given = guarded.settings("SCRAM-SHA-256", "bootstrap") | {"sasl.username": "admin"}
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("alice", info, b"secret")
    admin = AdminClient(given)  # it must outlive the answer
    admin.alter_user_scram_credentials([change])["alice"].result(SECONDS)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_librdkafka(guarded: Guarded, mechanism: str) -> None:
    topic = guarded.topic()
    producer = Producer(guarded.settings(mechanism))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(
        guarded.settings(mechanism) | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    seen: list[bytes | None] = []
    end = time.monotonic() + SECONDS
    while len(seen) < len(VALUES) and time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            seen.append(message.value())
    consumer.close()
    assert seen == VALUES


class PythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    """Supplies tokens to kafka-python."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded

    def token(self) -> str:
        return self._guarded.token()[0]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_kafka_python(guarded: Guarded, mechanism: str) -> None:
    given = guarded.python_settings(mechanism, PythonTokens(guarded)) | {"ssl_cafile": guarded.ca}
    topic = guarded.topic()
    producer = kafka.KafkaProducer(**given)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **given
    )
    seen = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert seen == VALUES


class AsyncTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """Supplies tokens to aiokafka."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded

    async def token(self) -> str:
        return self._guarded.token()[0]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_aiokafka(guarded: Guarded, mechanism: str) -> None:
    given = guarded.python_settings(mechanism, AsyncTokens(guarded))
    given["ssl_context"] = ssl.create_default_context(cafile=guarded.ca)
    topic = guarded.topic()

    async def produce_and_consume() -> list[bytes | None]:
        async with aiokafka.AIOKafkaProducer(**given) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        async with (
            aiokafka.AIOKafkaConsumer(
                topic, group_id=topic, auto_offset_reset="earliest", **given
            ) as consumer,
            asyncio.timeout(SECONDS),
        ):
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(produce_and_consume()) == VALUES


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_client_goes_on_when_its_session_ends(guarded: Guarded, mechanism: str) -> None:
    """KIP-368: librdkafka reauthenticates over its open connection without an error."""
    topic = guarded.topic()
    errors: list[object] = []
    metrics = guarded.cluster.embedded.agents[0].context.metrics
    producer = Producer(guarded.settings(mechanism) | {"error_cb": errors.append})

    def produce() -> None:
        producer.produce(
            topic, b"x", on_delivery=lambda error, _: errors.append(error) if error else None
        )
        assert producer.flush(SECONDS) == 0

    produce()
    begun = metrics.requests[SASL_AUTHENTICATE], metrics.connections_accepted
    end = time.monotonic() + SECONDS
    while metrics.requests[SASL_AUTHENTICATE] < begun[0] + 2 * STEPS[mechanism]:
        assert time.monotonic() < end
        produce()
        producer.poll(0.02)  # the session ends on time, however many records there are
    assert errors == []
    assert metrics.connections_accepted == begun[1]
    assert metrics.sessions_expired == 0


@pytest.mark.java
@pytest.mark.slow
@needs_jdk
def test_java_with_a_password_and_a_delegation_token(guarded: Guarded) -> None:
    """Only Java supports delegation tokens. Both producers reauthenticate, and the token expires (tests/java)."""
    arguments = [guarded.bootstrap, guarded.ca, "alice", "secret", str(SESSION_MS), guarded.topic()]
    done = subprocess.run(
        [*compiled(), "lacuna.Authentication", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout == "ok\n", done.stderr[-2000:]


def authentication_errors(settings: dict[str, Any]) -> list[KafkaError]:
    """Return a producer's errors up to the authentication failure."""
    errors: list[KafkaError] = []
    producer = Producer(settings | {"error_cb": errors.append})
    end = time.monotonic() + SECONDS
    while not any(each.code() == KafkaError._AUTHENTICATION for each in errors):
        assert time.monotonic() < end, errors
        producer.poll(0.1)
    return errors


def test_a_wrong_password_is_told(guarded: Guarded) -> None:
    assert authentication_errors(guarded.settings("SCRAM-SHA-512", "wrong"))


def test_librdkafka_says_that_authentication_failed(lacuna_cluster: Cluster) -> None:
    """Without an answer to the handshake, it assumes that the broker is too old for SASL."""
    errors = authentication_errors(
        {
            "bootstrap.servers": lacuna_cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "user",
            "sasl.password": "secret",
        }
    )
    assert "not valid in current SASL state" in "".join(each.str() for each in errors)
