"""Topics, configs and the cluster against a real control plane, by version and by mistake."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from agent.server import AgentServer
from agent.settings import AgentSettings
from controlplane.client import InProcessClient
from controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
    DeleteTopics,
)
from controlplane.v1.control_pb2 import Command
from tests.agent.harness import RawClient, make_context, nested
from tests.agent.plane import Cluster, cluster, hold_deltas

SECOND = datetime.timedelta(seconds=1)


class Setup:
    def __init__(self, running: Cluster, client: RawClient) -> None:
        self.running = running
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        async with asyncio.timeout(60):
            return await self.client.ask(api_key, version, **fields)

    async def create(self, *topics: Any, version: int = 7, check: bool = False) -> list[Any]:
        answer = await self.ask(19, version, topics=topics, timeout=SECOND, validate_only=check)
        return list(answer.topics)


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    async with cluster(AgentSettings(num_partitions=3, zone="a")) as running:
        client = await RawClient.connect(running.server.port)
        yield Setup(running, client)
        await client.close()


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    *,
    version: int = 7,
    assigned: tuple[int, ...] = (),
    configs: dict[str, str | None] | None = None,
) -> Any:
    return nested(
        19,
        version,
        "CreatableTopic",
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=tuple(
            nested(19, version, "CreatableReplicaAssignment", partition_index=i, broker_ids=(99,))
            for i in assigned
        ),
        configs=tuple(
            nested(19, version, "CreatableTopicConfig", name=key, value=value)
            for key, value in (configs or {}).items()
        ),
    )


@pytest.mark.parametrize("version", range(2, 8))
async def test_create_topics_at_every_version(setup: Setup, version: int) -> None:
    """KIP-525 from v5 on, KIP-516 from v7 on."""
    made = topic("t", -1, 7, version=version, configs={"retention.ms": " 01000 "})
    (found,) = await setup.create(made, version=version)
    assert found.error_code == 0
    if version >= 5:
        assert (found.num_partitions, found.replication_factor) == (3, 1)
        configs = {each.name: (each.value, each.config_source) for each in found.configs}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["max.message.bytes"] == ("1048588", 5)
    if version >= 7:
        known = setup.running.control.cluster.topics_by_name["t"]
        assert found.topic_id == UUID(bytes=known.topic_id)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("t", 1, 0), 38),
        (topic("t", 1, -2), 38),
        (topic("t", 0), 37),
        (topic("t", -2), 37),
        (topic("a/b"), 17),
        (topic("t", configs={"retention.ms": None}), 40),
        (topic("t", configs={"no.such": "1"}), 40),
        (topic("t", configs={"retention.ms": "many"}), 40),
        (topic("t", 2, -1, assigned=(0, 1)), 42),
        (topic("t", -1, 1, assigned=(0, 1)), 42),
        (topic("t", -1, -1, assigned=(0, 2)), 39),
        (topic("t", -1, -1, assigned=(0, 0)), 39),
        (topic("t", -1, -1, assigned=(1, 0)), 0),
    ],
)
async def test_what_create_topics_refuses(setup: Setup, wanted: Any, code: int) -> None:
    (found,) = await setup.create(wanted)
    assert found.error_code == code
    assert (found.error_message is None) == (code == 0)
    if code == 0:
        assert found.num_partitions == 2


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (((1,), (2,)), ""),
        (((1, 2), (2, 1)), ""),
        (((1,), ()), "an empty replica list"),
        (((1, 2, 1), (1, 2, 3)), "the broker 1 more than once"),
        (((1, 2), (3,)), "a partition with 1 replica(s)"),
    ],
)
async def test_an_assignment_names_as_many_different_brokers_for_each_partition(
    setup: Setup, brokers: tuple[tuple[int, ...], ...], said: str
) -> None:
    """As Kafka has it, of topics that are made and of those that grow; which brokers there are is not looked at."""
    assignments = tuple(
        nested(19, 7, "CreatableReplicaAssignment", partition_index=index, broker_ids=each)
        for index, each in enumerate(brokers)
    )
    made = nested(
        19,
        7,
        "CreatableTopic",
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=(),
    )
    (found,) = await setup.create(made)
    assert found.error_code == (39 if said else 0)
    assert said in (found.error_message or "")
    await setup.create(topic("u", 2))
    more = tuple(nested(37, 3, "CreatePartitionsAssignment", broker_ids=each) for each in brokers)
    growth = nested(37, 3, "CreatePartitionsTopic", name="u", count=4, assignments=more)
    answer = await setup.ask(37, 3, topics=(growth,), timeout=SECOND, validate_only=False)
    (grown,) = answer.results
    assert grown.error_code == (39 if said else 0)
    assert said in (grown.error_message or "")
    known = setup.running.control.cluster.topics_by_name
    assert ("t" in known, known["u"].partition_count) == (not said, 2 if said else 4)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (topic("t", 0), "Number of partitions was set to an invalid non-positive value."),
        (
            topic("t", 1, 0),
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic("t", configs={"retention.ms": None, "segment.ms": None}),
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            topic("t", -1, -1, assigned=(0, 2)),
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
async def test_create_topics_refuses_in_kafkas_words(setup: Setup, wanted: Any, said: str) -> None:
    (found,) = await setup.create(wanted)
    assert found.error_message == said


async def test_topics_fail_alone_and_twice_is_not_at_all(setup: Setup) -> None:
    found = await setup.create(topic("a"), topic("x/y"), topic("b"), topic("b"))
    assert [(each.name, each.error_code) for each in found] == [("a", 0), ("x/y", 17), ("b", 42)]
    assert set(setup.running.control.cluster.topics_by_name) == {"a"}


async def test_validate_only_changes_nothing(setup: Setup) -> None:
    (found,) = await setup.create(topic("t", 4), check=True)
    assert (found.error_code, found.num_partitions, found.topic_id) == (0, 4, None)
    assert not setup.running.control.cluster.topics_by_name


@pytest.mark.parametrize("version", range(1, 6))
async def test_delete_topics_by_name(setup: Setup, version: int) -> None:
    await setup.create(topic("t"), topic("u"))
    answer = await setup.ask(20, version, topic_names=("t", "nope", "u", "u"), timeout=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("t", 0),
        ("nope", 3),
        ("u", 42),
        ("u", 42),
    ]
    if version >= 5:
        words = [each.error_message for each in answer.responses]
        once = "A topic is to be named once, by its name or by its id."
        assert words == [None, "This server does not host this topic-partition.", once, once]
    assert set(setup.running.control.cluster.topics_by_name) == {"u"}


async def test_delete_topics_by_id(setup: Setup) -> None:
    """KIP-516; S6: a topic made anew under the name is another."""
    (made,) = await setup.create(topic("t"))

    async def delete(name: str | None, topic_id: UUID | None) -> tuple[str | None, int]:
        asked = nested(20, 6, "DeleteTopicState", name=name, topic_id=topic_id)
        (found,) = (await setup.ask(20, 6, topics=(asked,), timeout=SECOND)).responses
        return found.name, found.error_code

    assert await delete(None, UUID(int=99)) == (None, 100)
    assert await delete("t", made.topic_id) == ("t", 42)
    assert await delete(None, None) == (None, 42)
    assert await delete(None, made.topic_id) == ("t", 0)
    await setup.create(topic("t"))
    assert await delete(None, made.topic_id) == (None, 100)
    assert await delete("t", None) == ("t", 0)


@pytest.mark.parametrize("version", range(1, 7))
async def test_s6_delete_topics_that_another_agent_has_just_made_anew_or_deleted(
    setup: Setup, version: int
) -> None:
    """What was answered there holds here: by name the topic that has it now; who names none hears of no ids."""
    elsewhere = InProcessClient(setup.running.plane)

    async def make(name: str) -> bytes:
        wanted = CreateTopics(topics=[CreateTopic(name=name, partition_count=1)])
        made = (await elsewhere.call(Command(create_topics=wanted))).topics_created.topics[0]
        assert made.error_code == 0
        return made.topic_id

    async def drop(topic_id: bytes) -> None:
        await elsewhere.call(Command(delete_topics=DeleteTopics(topic_ids=[topic_id])))

    old, gone = await make("again"), await make("gone")
    hold_deltas(setup.running.control)
    await drop(old)
    await drop(gone)
    await make("again")
    fields: dict[str, Any] = {"topic_names": ("again", "gone")}
    if version >= 6:
        names = [
            nested(20, 6, "DeleteTopicState", name=name, topic_id=None)
            for name in ("again", "gone")
        ]
        fields = {"topics": tuple(names)}
    answer = await setup.ask(20, version, **fields, timeout=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("again", 0),
        ("gone", 3),
    ]
    assert not elsewhere.cluster.topics_by_name

    await make("new")
    fields = {"topic_names": ("new",)}
    if version >= 6:
        fields = {"topics": (nested(20, 6, "DeleteTopicState", name="new", topic_id=None),)}
    answer = await setup.ask(20, version, **fields, timeout=SECOND)
    assert [(each.name, each.error_code) for each in answer.responses] == [("new", 0)]
    if version >= 6:
        made = UUID(bytes=await make("by-id"))
        asked = nested(20, 6, "DeleteTopicState", name=None, topic_id=made)
        (found,) = (await setup.ask(20, 6, topics=(asked,), timeout=SECOND)).responses
        assert (found.name, found.topic_id, found.error_code) == ("by-id", made, 0)
    await elsewhere.close()


async def test_assignments_are_held_against_what_another_agent_has_just_grown(setup: Setup) -> None:
    await setup.create(topic("t", 1))
    elsewhere = InProcessClient(setup.running.plane)
    hold_deltas(setup.running.control)
    larger = CreatePartitions(topics=[CreatePartitionsTopic(name="t", partition_count=3)])
    await elsewhere.call(Command(create_partitions=larger))
    assignment = nested(37, 3, "CreatePartitionsAssignment", broker_ids=(1,))
    asked = nested(37, 3, "CreatePartitionsTopic", name="t", count=4, assignments=(assignment,))
    answer = await setup.ask(37, 3, topics=(asked,), timeout=SECOND, validate_only=False)
    assert [(each.name, each.error_code) for each in answer.results] == [("t", 0)]
    assert elsewhere.cluster.topics_by_name["t"].partition_count == 4
    await elsewhere.close()


@pytest.mark.parametrize("version", range(4))
async def test_create_partitions(setup: Setup, version: int) -> None:
    await setup.create(topic("t", 2), topic("u", 2))

    async def grow(*pairs: tuple[str, int], check: bool = False) -> list[tuple[str, int]]:
        topics = tuple(
            nested(37, version, "CreatePartitionsTopic", name=name, count=count, assignments=None)
            for name, count in pairs
        )
        answer = await setup.ask(37, version, topics=topics, timeout=SECOND, validate_only=check)
        return [(each.name, each.error_code) for each in answer.results]

    assert await grow(("t", 2), ("nope", 3), ("u", 5), ("u", 6)) == [
        ("t", 37),
        ("nope", 3),
        ("u", 42),
    ]
    for assigned, code in ((1, 39), (3, 39), (2, 0)):
        assignment = nested(37, version, "CreatePartitionsAssignment", broker_ids=(1,))
        growth = nested(
            37,
            version,
            "CreatePartitionsTopic",
            name="t",
            count=4,
            assignments=(assignment,) * assigned,
        )
        answer = await setup.ask(37, version, topics=(growth,), timeout=SECOND, validate_only=True)
        assert [each.error_code for each in answer.results] == [code]
    assert await grow(("t", 3), check=True) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 2
    assert await grow(("t", 3)) == [("t", 0)]
    assert setup.running.control.cluster.topics_by_name["t"].partition_count == 3


@pytest.mark.parametrize("version", range(1, 5))
async def test_describe_configs(setup: Setup, version: int) -> None:
    """Synonyms when asked for (KIP-226), types from v3 on (KIP-569)."""
    await setup.create(topic("t", configs={"retention.ms": "1000"}))
    node = str(setup.running.context.lease.node_id)

    async def describe(kind: int, name: str, keys: tuple[str, ...] | None = None) -> Any:
        resource = nested(
            32,
            version,
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=keys,
        )
        more = {"include_documentation": True} if version >= 3 else {}
        answer = await setup.ask(32, version, resources=(resource,), include_synonyms=True, **more)
        return answer.results[0]

    (config,) = (await describe(2, "t", ("retention.ms", "no.such"))).configs
    assert (config.value, config.config_source, config.read_only) == ("1000", 1, False)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("retention.ms", "1000", 1)
    ]
    if version >= 3:
        assert config.config_type == 5
        assert config.documentation
    broker = {each.name: each for each in (await describe(4, node)).configs}
    assert broker["num.partitions"].value == "3"
    assert broker["auto.create.topics.enable"].value == "true"
    assert broker["broker.rack"].value == "a"
    assert all(each.read_only and each.config_source in (4, 5) for each in broker.values())
    assert (await describe(4, "")).configs == ()
    codes = [
        (await describe(*asked)).error_code
        for asked in ((2, "nope"), (2, "a/b"), (4, "77"), (9, "x"))
    ]
    assert codes == [3, 17, 42, 42]
    assert (await describe(2, "nope")).error_message == "", (
        "as Kafka: tools have words of their own"
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_incremental_alter_configs(setup: Setup, version: int) -> None:
    await setup.create(topic("t"))
    SET, DELETE, APPEND = 0, 1, 2  # noqa: N806

    async def alter(
        *changes: tuple[str, int, str | None], name: str = "t", kind: int = 2, check: bool = False
    ) -> int:
        configs = tuple(
            nested(44, version, "AlterableConfig", name=key, config_operation=op, value=value)
            for key, op, value in changes
        )
        resource = nested(
            44,
            version,
            "AlterConfigsResource",
            resource_type=kind,
            resource_name=name,
            configs=configs,
        )
        answer = await setup.ask(44, version, resources=(resource,), validate_only=check)
        (found,) = answer.responses
        assert (found.error_message is None) == (found.error_code == 0)
        return int(found.error_code)

    def configs() -> dict[str, str]:
        return dict(setup.running.control.cluster.topics_by_name["t"].configs)

    assert await alter(("retention.ms", SET, "5"), check=True) == 0
    assert configs() == {}
    assert await alter(("retention.ms", SET, "5")) == 0
    assert configs() == {"retention.ms": "5"}
    assert await alter(("retention.ms", SET, "6"), ("no.such", SET, "1")) == 40
    assert await alter(("retention.ms", SET, None)) == 42
    assert await alter(("retention.ms", SET, "6"), ("retention.ms", DELETE, None)) == 42
    assert await alter(("retention.ms", APPEND, "6")) == 40
    assert await alter(("retention.ms", SET, "6"), name="nope") == 3
    assert await alter(("num.partitions", SET, "6"), name="1", kind=4) == 42
    assert await alter(("x", SET, "6"), kind=9) == 42
    assert configs() == {"retention.ms": "5"}
    assert await alter(("retention.ms", DELETE, None)) == 0
    assert configs() == {}


async def test_a_resource_named_twice_is_refused(setup: Setup) -> None:
    await setup.create(topic("t"))
    change = nested(44, 1, "AlterableConfig", name="retention.ms", config_operation=0, value="5")
    resource = nested(
        44, 1, "AlterConfigsResource", resource_type=2, resource_name="t", configs=(change,)
    )
    answer = await setup.ask(44, 1, resources=(resource, resource), validate_only=False)
    assert [each.error_code for each in answer.responses] == [42, 42]


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(setup: Setup, version: int) -> None:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": version > 0}
    if version >= 2:
        fields["include_fenced_brokers"] = True
    answer = await setup.ask(60, version, **fields)
    (broker,) = answer.brokers
    assert (broker.port, broker.rack) == (setup.running.server.port, "a")
    assert (answer.cluster_id, answer.controller_id) == ("cluster", broker.broker_id)
    asked = answer.cluster_authorized_operations
    assert asked == (-(2**31) if version == 0 else 8096)
    if version >= 1:
        codes = [
            (await setup.ask(60, version, **fields, endpoint_type=kind)).error_code
            for kind in (2, 9)
        ]
        assert codes == [114, 115]


@pytest.mark.parametrize("version", range(3))
async def test_delete_records_of_what_is_not_there(setup: Setup, version: int) -> None:
    await setup.create(topic("t"))
    rows = tuple(
        nested(
            21,
            version,
            "DeleteRecordsTopic",
            name=name,
            partitions=tuple(
                nested(21, version, "DeleteRecordsPartition", partition_index=i, offset=offset)
                for i, offset in pairs
            ),
        )
        for name, pairs in (("t", ((0, 0), (5, 0), (0, 9))), ("nope", ((0, -1),)))
    )
    answer = await setup.ask(21, version, topics=rows, timeout=SECOND)
    found = [(p.error_code, p.low_watermark) for t in answer.topics for p in t.partitions]
    assert found == [(0, 0), (3, -1), (1, -1), (3, -1)]


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(setup: Setup, version: int) -> None:
    """KIP-699 from v4 on."""
    node = setup.running.context.lease.node_id

    async def find(kind: int) -> tuple[int, int]:
        fields: dict[str, Any] = {"key_type": kind} if version else {}
        if version >= 4:
            answer = await setup.ask(10, version, **fields, coordinator_keys=("a", "b"))
            assert [each.key for each in answer.coordinators] == ["a", "b"]
            (found,) = {(each.node_id, each.error_code) for each in answer.coordinators}
            return found
        answer = await setup.ask(10, version, **fields, key="a")
        return answer.node_id, answer.error_code

    assert await find(0) == (node, 0)
    if version:
        assert await find(1) == (node, 0)
        assert await find(2) == (-1, 42)


async def test_two_agents_share_the_work_and_one_takes_it_all(setup: Setup) -> None:
    """Metadata of both say the same; an agent that ends cleanly is gone at once."""
    await setup.create(topic("t", 64))
    control = InProcessClient(setup.running.plane)
    context = make_context(control, AgentSettings(zone="a"))
    second = AgentServer(context)
    await second.start()
    await context.lease.start(second.port)
    other = await RawClient.connect(second.port)

    async def leaders(client: RawClient) -> list[int]:
        asked = nested(3, 9, "MetadataRequestTopic", name="t")
        answer = await client.ask(
            3,
            9,
            topics=(asked,),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        return [each.leader_id for each in answer.topics[0].partitions]

    first, nodes = await leaders(setup.client), {1, 2}
    assert first == await leaders(other)
    assert set(first) == nodes
    assert 16 < first.count(1) < 48
    await other.close()
    await context.lease.stop_renewing()
    await second.stop()
    await context.lease.release()
    await control.close()
    assert set(await leaders(setup.client)) == {setup.running.context.lease.node_id}
