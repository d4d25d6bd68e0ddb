"""Third-party clients of an agent on a real control plane: topics, configs, metadata."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiokafka.admin
import kafka
import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from lacuna.agent.settings import AgentSettings
from tests.agent.plane import Cluster, cluster


@pytest.fixture
async def running() -> AsyncIterator[Cluster]:
    async with cluster(AgentSettings(num_partitions=2, zone="a")) as started:
        yield started


def address(running: Cluster) -> str:
    return f"127.0.0.1:{running.server.port}"


def librdkafka(running: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": address(running)})


async def results(futures: dict[Any, Any]) -> dict[Any, Any]:
    """Return the result of each future, or the name of its error."""

    def wait(future: Any) -> Any:
        try:
            return future.result(60)
        except KafkaException as error:
            return error.args[0].name()

    return {key: await asyncio.to_thread(wait, future) for key, future in futures.items()}


async def test_librdkafka_creates_grows_and_deletes_topics(running: Cluster) -> None:
    admin = librdkafka(running)
    made = await results(
        admin.create_topics(
            [
                NewTopic("t", 3, 5),
                NewTopic("d", -1, 1),
                NewTopic("a/b", 1, 1),
                NewTopic("bad", 1, 1, config={"no.such": "1"}),
            ]
        )
    )
    assert made == {"t": None, "d": None, "a/b": "TOPIC_EXCEPTION", "bad": "INVALID_CONFIG"}
    assert await results(admin.create_topics([NewTopic("t", 1, 1)])) == {
        "t": "TOPIC_ALREADY_EXISTS"
    }
    assert await results(admin.create_partitions([NewPartitions("t", 5)])) == {"t": None}
    found = await asyncio.to_thread(admin.list_topics, timeout=60)
    assert {name: len(topic.partitions) for name, topic in found.topics.items()} == {"t": 5, "d": 2}
    assert list(found.brokers) == [running.context.lease.node_id]
    described = await results(admin.describe_topics(TopicCollection(["t"])))
    assert described["t"].partitions[4].leader.rack == "a"
    assert await results(admin.delete_topics(["t", "nope"])) == {
        "t": None,
        "nope": "UNKNOWN_TOPIC_OR_PART",
    }
    assert "t" not in (await asyncio.to_thread(admin.list_topics, timeout=60)).topics


async def test_librdkafka_reads_and_alters_configs(running: Cluster) -> None:
    admin = librdkafka(running)
    new = NewTopic("t", 1, 1, config={"retention.ms": "1000"})
    assert await results(admin.create_topics([new])) == {"t": None}

    async def describe(kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        (found,) = (await results(admin.describe_configs([ConfigResource(kind, name)]))).values()
        return dict(found)

    configs = await describe(ResourceType.TOPIC, "t")
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("1000", False)
    assert list(configs["retention.ms"].synonyms) == ["retention.ms"]
    assert configs["cleanup.policy"].is_default
    node = str(running.context.lease.node_id)
    broker = await describe(ResourceType.BROKER, node)
    assert (broker["num.partitions"].value, broker["broker.rack"].value) == ("2", "a")

    def change(kind: ResourceType, resource: str, name: str, value: str) -> ConfigResource:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        return ConfigResource(kind, resource, incremental_configs=[entry])

    good = change(ResourceType.TOPIC, "t", "max.message.bytes", "777")
    assert list((await results(admin.incremental_alter_configs([good]))).values()) == [None]
    bad = change(ResourceType.TOPIC, "t", "no.such", "1")
    assert list((await results(admin.incremental_alter_configs([bad]))).values()) == [
        "INVALID_CONFIG"
    ]
    agent = change(ResourceType.BROKER, node, "num.partitions", "1")
    assert list((await results(admin.incremental_alter_configs([agent]))).values()) == [
        "INVALID_REQUEST"
    ]
    assert (await describe(ResourceType.TOPIC, "t"))["max.message.bytes"].value == "777"


async def test_librdkafka_describes_the_cluster(running: Cluster) -> None:
    admin = librdkafka(running)
    future = admin.describe_cluster(include_authorized_operations=True)
    found = await asyncio.to_thread(future.result, 60)
    assert [node.id for node in found.nodes] == [running.context.lease.node_id]
    assert found.cluster_id == "cluster"
    assert found.controller.port == running.server.port
    assert len(found.authorized_operations) == 7


async def test_kafka_python_creates_topics_by_asking_for_them(running: Cluster) -> None:
    def ask() -> set[int]:
        producer = kafka.KafkaProducer(bootstrap_servers=address(running))
        try:
            return set(producer.partitions_for("auto"))
        finally:
            producer.close()

    assert await asyncio.to_thread(ask) == {0, 1}


async def test_aiokafka_sees_topics_and_cluster(running: Cluster) -> None:
    client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address(running))
    await client.start()
    try:
        await client.create_topics([aiokafka.admin.NewTopic("t", 4, 1)])
        (topic,) = await client.describe_topics(["t"])
        assert len(topic["partitions"]) == 4
        assert (await client.describe_cluster())["cluster_id"] == "cluster"
    finally:
        await client.close()
