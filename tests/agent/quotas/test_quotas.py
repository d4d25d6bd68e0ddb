"""The quota that applies to a client, how long it waits, and how two agents together use exactly the quota."""

import asyncio
import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.quotas.addresses import Addresses
from lacuna.agent.quotas.limits import CONNECTIONS, PRODUCED, Limits
from lacuna.agent.quotas.quotas import LONGEST_SECONDS, Bucket, Quotas
from lacuna.controlplane.shared.security import Entity, Security
from lacuna.controlplane.state.shares import Shares
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.testing.cluster import Cluster
from lacuna.wire.messages import client_quotas as wire
from tests.clients.hurry import keep_leases

#: Kafka's order: the first that exists applies. The value of each is its position.
LEVELS: tuple[Entity, ...] = (
    (("client-id", "app"), ("user", "alice")),
    (("client-id", None), ("user", "alice")),
    (("user", "alice"),),
    (("client-id", "app"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
)


@pytest.mark.parametrize("first", range(len(LEVELS) + 1))
def test_the_most_particular_quota_holds(first: int) -> None:
    security = Security()
    limits = Limits(security)
    security.quotas = {
        entity: {PRODUCED: float(place)} for place, entity in enumerate(LEVELS) if place >= first
    }
    security.quotas[(("user", "bob"),)] = {PRODUCED: 99.0}
    security.version += 1
    found = limits.find(PRODUCED, "alice", "app")
    if first == len(LEVELS):
        assert found is None
        return
    assert found is not None
    names = {"user": "alice", "client-id": "app"}
    assert found.rate == first
    assert found.entity == tuple((kind, names[kind]) for kind, _ in LEVELS[first])


def test_a_quota_without_the_key_is_passed_over_and_a_change_is_seen() -> None:
    security = Security()
    limits = Limits(security)
    security.quotas = {LEVELS[0]: {"other": 1.0}, LEVELS[7]: {PRODUCED: 5.0}}
    assert limits.find(PRODUCED, "alice", "app") == ((("client-id", "app"),), 5.0)
    security.quotas = {}
    assert limits.find(PRODUCED, "alice", "app") is not None, "until the version says so"
    security.version += 1
    assert limits.find(PRODUCED, "alice", "app") is None


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 500)), min_size=1, max_size=60))
def test_over_any_time_no_more_is_used_than_the_quota_and_one_request(
    steps: list[tuple[float, float]],
) -> None:
    """A client that waits as requested uses the rate, plus a second's worth at the start and its last request."""
    bucket = Bucket(100.0, 0.0, share=1.0)
    now = used = 0.0
    for pause, amount in steps:
        assert used <= 100.0 * (now + 1.0) + 500.0 + 1e-6
        now += pause
        used += amount
        while (delay := bucket.spend(amount, now)) > 0:
            assert delay <= LONGEST_SECONDS
            now += delay
            amount = 0.0


def test_clients_whose_use_is_counted_together_wait_together() -> None:
    security = Security()
    security.quotas = {(("user", None),): {PRODUCED: 100.0}}
    quotas = Quotas(security)
    assert quotas.spend(PRODUCED, "alice", "one", 525.0, 0.0) == LONGEST_SECONDS
    assert quotas.delay(PRODUCED, "alice", "two", 0.0) == LONGEST_SECONDS
    assert quotas.delay(PRODUCED, "bob", "one", 0.0) == 0.0
    (bucket, _) = quotas.buckets.values()
    bucket.share = 1.0
    assert quotas.delay(PRODUCED, "alice", "one", 0.0) == pytest.approx(5.0)
    assert quotas.delay(PRODUCED, "alice", "one", 5.0) == 0.0


def test_connections_beyond_the_rate_of_an_address_wait() -> None:
    security = Security()
    security.quotas = {(("ip", None),): {CONNECTIONS: 2.0}, (("ip", "b"),): {CONNECTIONS: 1000.0}}
    addresses = Addresses(Limits(security))
    assert [addresses.opened("a", 0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert addresses.open_now("a") == 5
    addresses.closed("a")
    assert addresses.open_now("a") == 4
    assert [addresses.opened("b", 0.0) for _ in range(5)] == [0.0] * 5


@pytest.mark.parametrize("address", ["::1", "0:0:0:0:0:0:0:1", "::0001"])
def test_an_address_has_one_form(address: str) -> None:
    security = Security()
    security.quotas = {(("ip", "::1"),): {CONNECTIONS: 2.0}}
    assert Limits(security).of_ip(address) == 2.0


def test_what_clients_call_themselves_takes_little_memory() -> None:
    """A client id can have up to 32 kB."""
    security = Security()
    security.quotas = {(("client-id", None),): {PRODUCED: 1.0}}
    limits = Limits(security)
    found = limits.find(PRODUCED, "alice", "x" * 30_000)
    assert found is not None
    assert found.entity == (("client-id", "x" * 256),)
    assert not limits._found


ENTITY = (("user", None),)
RATE = 1_000_000.0


@pytest.mark.parametrize("clients", [(0, 0, 1), (0, 1, 1), (0, 0, 0), (1, 1, 1)])
def test_over_half_a_minute_the_sum_is_the_quota(clients: tuple[int, ...]) -> None:
    """Each client sends requests of 60 kB to the agent with its number, as soon as it may; time is virtual."""
    security = Security()
    security.quotas = {ENTITY: {PRODUCED: RATE}}
    agents = [Quotas(security), Quotas(security)]
    shares = Shares()
    free_at = [0.0] * len(clients)
    used = 0.0
    for millisecond in range(30_000):
        now = millisecond / 1000
        if millisecond % 1000 == 999:
            for lease_id, quotas in enumerate(agents):
                for (key, entity), bucket in quotas.buckets.items():
                    part, is_short = bucket.used / RATE, bucket.was_short
                    bucket.reported()
                    asked = (key, entity), lease_id, part, is_short, millisecond
                    bucket.share = shares.ask(*asked)
        for client, agent in enumerate(clients):
            if free_at[client] <= now:
                used += 60_000
                spent = agents[agent].spend(PRODUCED, "ANONYMOUS", f"c{client}", 60_000, now)
                free_at[client] = now + spent
    assert used / 30 == pytest.approx(RATE, rel=0.1)


@pytest.mark.slow
def test_real_producers_get_no_more_than_the_quota() -> None:
    """librdkafka sends what it can through two agents until it is throttled; on a busy machine, it may send less."""
    with Cluster(agents=2) as cluster:
        keep_leases(cluster)
        cluster.create_topic("t", 6)
        asyncio.run(_set_quota(cluster.bootstrap))
        acknowledged = 0

        def count(error: KafkaError | None, message: Message) -> None:
            nonlocal acknowledged
            if error is None:
                acknowledged += len(message.value() or b"")

        config = {"bootstrap.servers": cluster.bootstrap, "queue.buffering.max.kbytes": 1000}
        throttled: list[object] = []
        config["throttle_cb"] = throttled.append
        producers = [Producer({**config, "client.id": f"c{each}"}) for each in range(3)]
        began = time.monotonic()
        while time.monotonic() - began < 8 or not throttled:
            for producer in producers:
                try:
                    producer.produce("t", bytes(1000), on_delivery=count)
                except BufferError:
                    producer.poll(0.01)
        for producer in producers:
            producer.poll(0)
            producer.purge()
        seconds = time.monotonic() - began
        # A second's worth is granted immediately: to each agent, the part that it has before the other one has asked.
        assert acknowledged <= RATE * (seconds + 2) * 1.1


async def _set_quota(bootstrap: str) -> None:
    entry = wire.EntryData(
        [wire.EntityData("user", None)], [wire.OpData(PRODUCED, RATE, remove=False)]
    )
    async with KafkaConnection(Agents(bootstrap)) as connection:
        answer = await connection.ask(
            wire.ALTER_CLIENT_QUOTAS_REQUEST,
            wire.ALTER_CLIENT_QUOTAS_RESPONSE,
            1,
            wire.AlterClientQuotasRequest([entry], validate_only=False),
        )
    assert answer.entries[0].error_code == 0
