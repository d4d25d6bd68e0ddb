"""Agents in a zone: they recognize each other, share reads, and notice a death immediately (S3, S26, adr/0018)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.peers import PEER, PEER_MECHANISM, PeerIdentity
from lacuna.agent.security.sasl.mechanism import AuthenticationFailed
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, Users
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.client_security import ClientSecurity
from lacuna.base.sasl import Credentials, scram, scram_exchange
from lacuna.controlplane.client.views import ClusterView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.state.settings import SESSION_GRACE_MS
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.operating.agents import AgentParts
from lacuna.operating.kafka import Agents, KafkaConnection, NotAuthenticated
from lacuna.testing import Cluster
from lacuna.wire.peers import READ_CHUNK_REQUEST, READ_CHUNK_RESPONSE, ReadChunkRequest
from tests.certificates import Authority
from tests.clients.probing import Target
from tests.simulation.stage import Stage, staged


class Plane:
    """The secrets that leaders send to an agent."""

    def __init__(self) -> None:
        feed: Any = SimpleNamespace()
        self.cluster = ClusterView(feed)

    def lead(self, secret: bytes) -> None:
        self.cluster.apply(ClusterDelta(is_snapshot=True, peer_secret=secret))


async def authenticates(client: PeerIdentity, server: PeerIdentity) -> bool:
    credentials = client.credentials()
    assert credentials is not None
    exchange = credentials.begin()
    taken = ScramExchange(SHA_256, Users(Security()), server.find)
    try:
        first = await taken.respond(next(exchange))
        final = await taken.respond(exchange.send(first.token))
    except AuthenticationFailed:
        return False
    with pytest.raises(StopIteration):
        exchange.send(final.token)
    assert final.outcome is not None
    assert final.outcome.principal == PEER
    return True


async def test_an_agent_that_was_cut_off_while_the_leader_changed_is_known_for_a_while() -> None:
    here, there = Plane(), Plane()
    one, other = PeerIdentity(here), PeerIdentity(there)  # type: ignore[arg-type]
    assert one.credentials() is None
    here.lead(b"1")
    there.lead(b"1")
    assert await authenticates(one, other)
    here.lead(b"2")
    assert await authenticates(other, one)
    assert not await authenticates(one, other)  # it does not know the new secret
    here.lead(b"3")
    assert await authenticates(other, one)
    here.lead(b"4")
    assert not await authenticates(other, one)
    one.stop()
    here.lead(b"5")
    there.lead(b"5")
    assert not await authenticates(other, one)


#: Less than the control plane takes, and more than a connection takes.
AT_ONCE = 0.2 * SESSION_GRACE_MS / 1000


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


def metadata(target: Target, topic: str) -> dict[str, Any]:
    return target.call("metadata", 12, topics=[{"topic_id": None, "name": topic}])


def leaders(target: Target, topic: str) -> set[int]:
    """Return the node ids of the leaders, according to this agent's Metadata."""
    (found,) = metadata(target, topic)["topics"]
    return {partition["leader_id"] for partition in found["partitions"]}


def brokers(target: Target, topic: str) -> set[int]:
    """Return the node ids of the brokers in this agent's Metadata."""
    return {broker["node_id"] for broker in metadata(target, topic)["brokers"]}


def coordinators(target: Target) -> set[int]:
    keys = [f"group-{number}" for number in range(16)]
    answer = target.call("find_coordinator", 4, key_type=0, coordinator_keys=keys)
    return {found["node_id"] for found in answer["coordinators"]}


@pytest.mark.slow
def test_who_has_died_is_not_named_before_the_control_plane_hides_it(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    assert leaders(one, topic) == coordinators(one) == {1, 2}
    stage.agents[1].kill(back_after=30)
    stage.advance(AT_ONCE)
    assert not stage.control.state().hidden_leases
    assert leaders(one, topic) == coordinators(one) == {1}
    assert brokers(one, topic) == {1}, "tools do not wait for it"
    software = {"client_software_name": "librdkafka", "client_software_version": "2.16.1"}
    one.call("api_versions", 3, **software)
    assert brokers(one, topic) == {1, 2}, "librdkafka is not to drop it"
    stage.until(lambda: stage.control.state().hidden_leases)
    assert leaders(one, topic) == {1}
    stage.until(lambda: leaders(one, topic) == {1, 2}, within=40)


def test_who_only_closes_a_connection_is_named_on(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    assert leaders(one, topic) == {1, 2}
    stage.advance(2)  # one that closes right away is not asked again immediately
    assert stage.agents[0].running.context.lines.counts() == (1, 1)
    stage.agents[1].running.server.drop_clients()
    stage.advance(AT_ONCE)
    assert leaders(one, topic) == {1, 2}


def test_who_cannot_be_reached_here_alone_is_named_again_after_a_while(stage: Stage) -> None:
    """The control plane can reach it, so clients may be able to as well."""
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    network = stage.around.network
    process = stage.agents[1].process
    assert process is not None
    network.cut("agent-1", "agent-2", 60)
    for link in network.links_of(process):
        if {end.process.name for end in link.ends} == {"agent-1", "agent-2"}:
            network.break_link(link)
    stage.advance(AT_ONCE)
    assert leaders(one, topic) == {1}
    stage.until(lambda: leaders(one, topic) == {1, 2}, within=4)


TOPIC, PARTITIONS, RECORDS = "t", 4, 200


class Secured:
    """Two agents in one zone whose only listener uses a given protocol, and client settings."""

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
            # Not the protocol that agents use among themselves.
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
                # The other agent is waited for, however busy the machine is.
                fetch=FetchSettings(zone_reads="on", zone_patience_ms=60_000),
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


@pytest.mark.slow
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
    assert "could not share a read" not in caplog.text
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
        # A client without the secret cannot claim to be an agent, and no client is told of the mechanism.
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
