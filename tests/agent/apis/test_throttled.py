"""The effect of quotas on requests: whose use counts, the throttle time, and which requests wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lacuna.agent.apis import discover
from lacuna.agent.client import Peer
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.quotas import throttling
from lacuna.agent.quotas.limits import MUTATIONS, PRODUCED, REQUESTS
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import topics
from lacuna.wire.messages.client_quotas import EntryData, OpData
from lacuna.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from lacuna.wire.peers import ASK_CONTROL_KEY, READ_CHUNK_KEY
from tests.agent.apis.clusters import UNKNOWN_TOPIC, Setup, topic
from tests.agent.apis.test_client_quotas import EVERY_USER, alter
from tests.agent.harness import RawClient, encode_request
from tests.clients.batch import batch
from tests.messages import encode_body

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
PRODUCE, METADATA, API_VERSIONS, DELETE_TOPICS = 0, 3, 18, 20


async def limit(setup: Setup, key: str, value: float) -> None:
    assert await alter(setup, EntryData([EVERY_USER], [OpData(key, value, remove=False)])) == [
        (ErrorCode.NONE, None)
    ]


@asynccontextmanager
async def another(setup: Setup) -> AsyncIterator[RawClient]:
    """Open another connection, because a throttled one gets no answers for a while."""
    client = await RawClient.connect(setup.running.server.port)
    yield client
    client.writer.close()


def records(acks: int) -> ProduceRequest:
    """Return a Produce request of 100 kB."""
    parts = [PartitionProduceData(0, memoryview(batch([bytes(100_000)])))]
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=parts)])


def used(setup: Setup) -> float:
    """Return the Produce bytes counted so far."""
    buckets = setup.running.context.quotas.buckets
    return sum(found.used for (key, _), found in buckets.items() if key == PRODUCED)


@pytest.mark.slow
async def test_no_connection_is_served_before_what_is_owed_is_paid(setup: Setup) -> None:
    await setup.create("t")
    await limit(setup, PRODUCED, 1000.0)
    async with another(setup) as first, another(setup) as second, another(setup) as third:
        answer = await first.call(9, records(-1))
        assert answer.throttle_time_ms > 90_000  # as in Kafka, as long as it takes
        body = encode_body(PRODUCE, 9, records(-1))
        second.send(encode_request(PRODUCE, 9, body))
        while setup.running.context.metrics.request_bytes_now < len(body):
            await third.ask(API_VERSIONS, 0)  # others are served meanwhile
        assert setup.running.context.metrics.requests[PRODUCE] == 1


async def test_records_that_nobody_acknowledges_count(setup: Setup) -> None:
    await setup.create("t")
    await limit(setup, PRODUCED, 1000.0)
    body = encode_body(PRODUCE, 9, records(0))
    async with another(setup) as client, another(setup) as other:
        client.send(encode_request(PRODUCE, 9, body))
        while not used(setup):
            await other.ask(API_VERSIONS, 0)
        assert used(setup) > 100_000


async def test_the_time_of_a_request_is_told_with_its_answer(setup: Setup) -> None:
    await limit(setup, REQUESTS, 0.001)
    async with another(setup) as client:
        answer = await client.ask(METADATA, 9, topics=None)
    assert 0 < answer.throttle_time_ms <= 1000  # Kafka's bound


async def test_a_debt_is_not_forgotten_with_the_time(setup: Setup) -> None:
    await setup.create("t")
    await limit(setup, PRODUCED, 1000.0)
    async with another(setup) as client:
        await client.call(9, records(-1))
    (bucket,) = (
        found for (key, _), found in setup.running.context.quotas.buckets.items() if key == PRODUCED
    )
    bucket.share = 1.0
    now = bucket._at
    assert not bucket.is_idle(now + 60)
    assert bucket.delay(now + 60) > 30
    assert bucket.is_idle(now + 120)


async def test_only_what_was_changed_counts_and_errors_stay_what_they_are(setup: Setup) -> None:
    await setup.create("there", 50)
    await limit(setup, MUTATIONS, 1.0)

    async def create(*names: str, count: int = 1) -> tuple[list[int], int]:
        async with another(setup) as client:
            made = [topic(name, count) for name in names]
            answer = await client.call(7, topics.CreateTopicsRequest(made, 1000))
            return [each.error_code for each in answer.topics], answer.throttle_time_ms

    exists, invalid = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await create("there", count=50) == ([exists], 0)
    assert await create("a b") == ([invalid], 0)
    codes, told = await create("new", count=60)
    assert codes == [0]
    assert told > 50_000
    codes, told = await create("there", "a b", "newer")
    assert codes == [exists, invalid, EXCEEDED]
    assert told > 50_000
    assert "newer" not in setup.running.control.cluster.topics_by_name


async def test_topics_that_metadata_makes_count(setup: Setup) -> None:
    await limit(setup, MUTATIONS, 1.0)

    async def look(name: str) -> int:
        async with another(setup) as client:
            wanted = [topics.MetadataRequestTopic(name=name)]
            answer = await client.call(9, topics.MetadataRequest(wanted))
            (found,) = answer.topics
            return int(found.error_code)

    assert await look("first") == 0
    assert await look("second") == UNKNOWN_TOPIC
    assert set(setup.running.control.cluster.topics_by_name) == {"first"}


async def test_deleted_partitions_count(setup: Setup) -> None:
    await setup.create("large", 60)
    await limit(setup, MUTATIONS, 1.0)
    async with another(setup) as client:
        answer = await client.ask(DELETE_TOPICS, 5, topic_names=("missing",), timeout_ms=1000)
        assert answer.throttle_time_ms == 0
        answer = await client.ask(DELETE_TOPICS, 5, topic_names=("large",), timeout_ms=1000)
        assert answer.responses[0].error_code == 0
        assert answer.throttle_time_ms > 50_000


@pytest.mark.parametrize(
    ("protocol", "api_key", "counts"),
    [
        (Protocol.PLAINTEXT, API_VERSIONS, True),
        (Protocol.SASL_PLAINTEXT, API_VERSIONS, False),
        (Protocol.PLAINTEXT, READ_CHUNK_KEY, False),
        (Protocol.PLAINTEXT, ASK_CONTROL_KEY, True),
    ],
)
def test_who_has_not_authenticated_uses_nothing(
    protocol: Protocol, api_key: int, counts: bool
) -> None:
    session = Authentication(Listener(protocol.value, protocol), SystemWallClock())
    peer = Peer(host="h", port=1, session=session)
    api = discover().get(api_key, 0)
    assert api is not None
    assert throttling.is_counted(peer, api.quota) is counts
