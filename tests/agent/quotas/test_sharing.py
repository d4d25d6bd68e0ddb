"""Two agents and three clients use exactly the quota together."""

import asyncio
import time

import pytest
from confluent_kafka import KafkaError, Message, Producer

from lacuna.agent.quotas.limits import PRODUCED
from lacuna.agent.quotas.quotas import Quotas
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.state.shares import Shares
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.testing.cluster import Cluster
from lacuna.wire.messages.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_REQUEST,
    ALTER_CLIENT_QUOTAS_RESPONSE,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.clients.hurry import keep_leases

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
    """librdkafka sends as much as it can through two agents, until it is throttled. On a busy machine, it may send
    less.
    """
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
        # A second's worth is given at once, to each agent the part that it has before the other has asked.
        assert acknowledged <= RATE * (seconds + 2) * 1.1


async def _set_quota(bootstrap: str) -> None:
    entry = EntryData([EntityData("user", None)], [OpData(PRODUCED, RATE, remove=False)])
    async with KafkaConnection(Agents(bootstrap)) as connection:
        answer = await connection.ask(
            ALTER_CLIENT_QUOTAS_REQUEST,
            ALTER_CLIENT_QUOTAS_RESPONSE,
            1,
            AlterClientQuotasRequest([entry], validate_only=False),
        )
    assert answer.entries[0].error_code == 0
