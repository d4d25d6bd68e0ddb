"""Agents of a zone share their reads, whatever authentication their first listener requires."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.peers import PEER_MECHANISM
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.client_security import ClientSecurity
from lacuna.base.sasl import Credentials, scram, scram_exchange
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.agents import AgentParts
from lacuna.operating.kafka import Agents, KafkaConnection, NotAuthenticated
from lacuna.testing import Cluster
from lacuna.wire.peers import READ_CHUNK_REQUEST, READ_CHUNK_RESPONSE, ReadChunkRequest
from tests.certificates import Authority

TOPIC, PARTITIONS, RECORDS = "t", 4, 200


class Secured:
    """Two agents of one zone whose only listener has a protocol, and the settings of clients."""

    def __init__(self, folder: Path, protocol: Protocol, *, has_authority: bool) -> None:
        authority = Authority(folder)
        own = authority.issue("agent")
        (folder / "users").write_text('alice = "env:USER_PASSWORD"\n')
        security = SecuritySettings(
            certificate=own.certificate if protocol.has_tls else "",
            key=own.key if protocol.has_tls else "",
            authorities=authority.path if has_authority else "",
            client_auth="required" if has_authority else "none",
            users_file=str(folder / "users") if protocol.has_sasl else "",
            # Not what agents use among themselves.
            mechanisms="SCRAM-SHA-512",
        )
        self.security = ClientSecurity(
            protocol=protocol.value,
            authorities=authority.path,
            certificate=own.certificate,
            key=own.key,
            credentials=scram("SCRAM-SHA-512", "alice", "secret") if protocol.has_sasl else None,
        )
        self.cluster = Cluster(
            agents=2,
            parts=AgentParts(
                agent=AgentSettings(listeners=(Listener(protocol.value, protocol),), zone="a"),
                security=security,
                fetch=FetchSettings(zone_reads="on"),
                housekeeping=HousekeepingSettings(
                    merge_interval_ms=3_600_000, collect_interval_ms=3_600_000
                ),
            ),
        )

    @property
    def agents(self) -> Agents:
        return Agents(self.cluster.bootstrap, self.security)

    def write(self) -> None:
        self.cluster.create_topic(TOPIC, PARTITIONS)
        producer = Producer(self.agents.librdkafka())
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%05d" % number * 400, partition=number % PARTITIONS)
            if number % 50 == 0:
                assert producer.flush(60) == 0
        assert producer.flush(60) == 0

    def read(self) -> None:
        consumer = Consumer({**self.agents.librdkafka(), "group.id": "g"})
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        count, deadline = 0, time.monotonic() + 60
        while count < RECORDS:
            assert time.monotonic() < deadline, f"{count} records"
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                count += 1
        consumer.close()


@pytest.mark.parametrize(
    ("protocol", "has_authority"),
    [
        (Protocol.SASL_SSL, True),
        (Protocol.SASL_SSL, False),
        (Protocol.SASL_PLAINTEXT, False),
        (Protocol.SSL, True),
    ],
)
def test_agents_share_what_they_read(
    tmp_path: Path,
    protocol: Protocol,
    has_authority: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("USER_PASSWORD", "secret")
    caplog.set_level("DEBUG")
    secured = Secured(tmp_path, protocol, has_authority=has_authority)
    with secured.cluster:
        secured.write()
        secured.cluster.restart()
        secured.read()
        taken = [
            agent.context.fetch.shared.metrics.taken
            for agent in secured.cluster.embedded.agents
            if agent.context.fetch.shared is not None
        ]
        secret = secured.cluster.embedded.control.cluster.peer_secret
        assert len(taken) == 2
        assert sum(taken) > 0, taken
    assert "a request for shared reads" not in caplog.text
    assert secret
    assert secret.hex() not in caplog.text
    assert repr(secret) not in caplog.text


async def test_strangers_are_given_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_PASSWORD", "secret")
    secured = Secured(tmp_path, Protocol.SASL_SSL, has_authority=True)
    with secured.cluster:
        # A user is not an agent, not even one who has learned the secret.
        cluster = secured.cluster.embedded.control.cluster
        request = ReadChunkRequest(cluster.peer_secret, cluster.cluster_id, 1, 1, 0, 1)
        async with KafkaConnection(secured.agents) as connection:
            answer = await connection.ask(READ_CHUNK_REQUEST, READ_CHUNK_RESPONSE, 0, request)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # Who does not know the secret cannot say that it is an agent; and whoever can is not told of the mechanism.
        guess = Credentials(
            PEER_MECHANISM, lambda: scram_exchange("sha256", "0" * 16, "guess", is_token=True)
        )
        security = ClientSecurity(
            protocol="SASL_SSL", made_context=secured.security.context, credentials=guess
        )
        with pytest.raises(NotAuthenticated, match="rejected the credentials"):
            async with KafkaConnection(Agents(secured.cluster.bootstrap, security)):
                pass
        unknown = ClientSecurity(
            protocol="SASL_SSL",
            made_context=secured.security.context,
            credentials=Credentials(
                "X", lambda: scram_exchange("sha256", "a", "b", is_token=False)
            ),
        )
        with pytest.raises(NotAuthenticated, match=r"one of SCRAM-SHA-512$"):
            async with KafkaConnection(Agents(secured.cluster.bootstrap, unknown)):
                pass
