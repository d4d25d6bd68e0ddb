"""What tools ask of a cluster, by version: against a real control plane, and with several agents.

What Apache Kafka answers to the same is in the probes `cluster.*` and `configs.*` (tests/clients).
"""

import asyncio
import datetime
import logging
import struct
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader

from agent.apis.log_dirs import LOG_DIR
from agent.apis.registry import response_header_version
from agent.apis.schema import response_class
from agent.settings import AgentSettings
from controlplane.v1.cluster_pb2 import Agent, CreateTopic, CreateTopics, Topic
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionsRead, PartitionState
from tests.agent.fetch.log import make_batch, produce_request
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    encode_request,
    make_context,
    nested,
    serving,
    snapshot,
)
from tests.agent.plane import Cluster, cluster

SECOND = datetime.timedelta(seconds=1)
INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC, NOT_REGISTERED = 42, 40, 3, 102


class Setup:
    """A cluster of one agent and a client of it."""

    def __init__(self, running: Cluster, client: RawClient) -> None:
        self.running = running
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        async with asyncio.timeout(60):
            return await self.client.ask(api_key, version, **fields)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        topic = CreateTopic(
            name=name,
            partition_count=partitions,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        command = Command(create_topics=CreateTopics(topics=[topic]))
        (made,) = (await self.running.control.call(command)).topics_created.topics
        assert made.error_code == 0, made

    def configs(self, name: str) -> dict[str, str]:
        return dict(self.running.control.cluster.topics_by_name[name].configs)


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    async with cluster(AgentSettings()) as running:
        client = await RawClient.connect(running.server.port)
        yield Setup(running, client)
        await client.close()


def of_topic(version: int, name: str, **configs: str | None) -> Any:
    """A resource of AlterConfigs."""
    return nested(
        33,
        version,
        "AlterConfigsResource",
        resource_type=2,
        resource_name=name,
        configs=tuple(
            nested(33, version, "AlterableConfig", name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_everything(setup: Setup, version: int) -> None:
    await setup.create("t", retention_ms="5")
    resource = of_topic(version, "t", retention_bytes="9")
    (found,) = (await setup.ask(33, version, resources=(resource,), validate_only=True)).responses
    assert (found.error_code, found.error_message) == (0, None)
    assert setup.configs("t") == {"retention.ms": "5"}
    await setup.ask(33, version, resources=(resource,), validate_only=False)
    assert setup.configs("t") == {"retention.bytes": "9"}


async def test_alter_configs_fails_by_resource(setup: Setup) -> None:
    """A resource that is named twice fails both times; another one is altered."""
    await setup.create("t", retention_ms="5")
    await setup.create("u")
    config = nested(33, 2, "AlterableConfig", name="a", value="b")
    others = [
        nested(
            33, 2, "AlterConfigsResource", resource_type=kind, resource_name="1", configs=(config,)
        )
        for kind in (4, 8, 16, 77, 32)
    ]
    asked = (of_topic(2, "t"), of_topic(2, "u", segment_ms="7"), of_topic(2, "t"), *others)
    found = (await setup.ask(33, 2, resources=asked, validate_only=False)).responses
    assert [each.error_code for each in found] == [42, 0, 42, 42, 42, 42, 42, INVALID_CONFIG]
    assert all(each.error_message for each in found if each.error_code)
    assert setup.configs("t") == {"retention.ms": "5"}
    assert setup.configs("u") == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (4, INVALID_REQUEST),
        (8, INVALID_REQUEST),
        (16, INVALID_REQUEST),
        (32, INVALID_CONFIG),
    ],
)
async def test_what_is_not_there_can_be_deleted(setup: Setup, kind: int, refused: int) -> None:
    """Tools clear what they might have set: kafka-reassign-partitions --verify its throttles."""

    async def alter(operation: int, value: str | None) -> int:
        config = nested(44, 1, "AlterableConfig", name="a", config_operation=operation, value=value)
        resource = nested(
            44, 1, "AlterConfigsResource", resource_type=kind, resource_name="1", configs=(config,)
        )
        answer = await setup.ask(44, 1, resources=(resource,), validate_only=False)
        (found,) = answer.responses
        return int(found.error_code)

    assert await alter(1, None) == 0
    assert await alter(0, "x") == refused


@pytest.mark.parametrize("version", range(3))
async def test_groups_have_configs_of_their_own(setup: Setup, version: int) -> None:
    """Set by AlterConfigs or one by one, shown with their source, listed while there are any."""

    def of_group(key: int, version: int, name: str, **configs: str) -> Any:
        extra = {"config_operation": 0} if key == 44 else {}
        rows = tuple(
            nested(
                key, version, "AlterableConfig", name=key_.replace("_", "."), value=value, **extra
            )
            for key_, value in configs.items()
        )
        return nested(
            key,
            version,
            "AlterConfigsResource",
            resource_type=32,
            resource_name=name,
            configs=rows,
        )

    async def described(name: str) -> dict[str, tuple[str, int]]:
        resource = nested(
            32,
            4,
            "DescribeConfigsResource",
            resource_type=32,
            resource_name=name,
            configuration_keys=None,
        )
        answer = await setup.ask(
            32, 4, resources=(resource,), include_synonyms=True, include_documentation=True
        )
        (result,) = answer.results
        assert not any(each.read_only for each in result.configs)
        return {each.name: (each.value, each.config_source) for each in result.configs}

    async def listed() -> list[str]:
        answer = await setup.ask(74, 1, resource_types=(32,))
        return [each.resource_name for each in answer.config_resources]

    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert await described("g") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == []
    alone = of_group(44, 1, "g", consumer_heartbeat_interval_ms="6000")
    answer = await setup.ask(44, 1, resources=(alone,), validate_only=False)
    assert answer.responses[0].error_code == 0
    assert await described("g") == {session: ("45000", 5), interval: ("6000", 8)}
    whole = of_group(33, version, "g", consumer_session_timeout_ms="50000")
    answer = await setup.ask(33, version, resources=(whole,), validate_only=False)
    assert answer.responses[0].error_code == 0
    assert await described("g") == {session: ("50000", 8), interval: ("5000", 5)}
    assert await described("h") == {session: ("45000", 5), interval: ("5000", 5)}
    assert await listed() == ["g"]
    too_long = of_group(44, 1, "g", consumer_session_timeout_ms="60001")
    answer = await setup.ask(44, 1, resources=(too_long,), validate_only=False)
    assert answer.responses[0].error_code == INVALID_CONFIG
    assert "group.consumer.max.session.timeout.ms" in answer.responses[0].error_message
    answer = await setup.ask(
        33, version, resources=(of_group(33, version, "g"),), validate_only=False
    )
    assert answer.responses[0].error_code == 0
    assert await listed() == []


@pytest.mark.parametrize("version", range(2))
async def test_list_config_resources(setup: Setup, version: int) -> None:
    """v0 asks for client metrics subscriptions alone."""
    await setup.create("t")
    fields = {"resource_types": ()} if version else {}
    answer = await setup.ask(74, version, **fields)
    assert answer.error_code == 0
    named = [
        (each.resource_type, each.resource_name) for each in answer.config_resources if version
    ]
    assert named == ([(2, "t"), (4, "1"), (8, "1")] if version else [])
    assert len(answer.config_resources) == len(named)


@pytest.mark.parametrize("version", range(1, 5))
async def test_log_dirs_have_the_sizes_of_the_extents(setup: Setup, version: int) -> None:
    """KIP-827's sizes of the volume are unknown: an object store has no end."""
    await setup.create("t", 2)
    batch = make_batch(b"x" * 500)
    request = produce_request({("t", 1): batch})
    await setup.running.context.produce.produce(request)
    answer = await setup.ask(35, version, topics=None)
    (directory,) = answer.results
    assert (directory.error_code, directory.log_dir) == (0, LOG_DIR)
    (topic,) = directory.topics
    sizes = {each.partition_index: each.partition_size for each in topic.partitions}
    assert sizes == {0: 0, 1: len(batch)}
    assert {(each.offset_lag, each.is_future_key) for each in topic.partitions} == {(0, False)}
    if version >= 4:
        assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)


async def test_agents_share_the_partitions_of_log_dirs_as_metadata_does() -> None:
    """A tool adds up what all brokers say: each partition once, at the agent that Metadata names."""
    agents = tuple(Agent(node_id=n, host="127.0.0.1", port=9000 + n) for n in (1, 2, 3))
    led: dict[int, set[int]] = {}
    leaders: dict[int, int] = {}
    for node_id in (1, 2, 3):
        control = ScriptedControl()
        reply = control.answers["register_agent"]
        reply.agent_registered.node_id = node_id  # type: ignore[union-attr]
        control.answers["read_partitions"] = _sizes
        context = make_context(control)
        async with serving(context) as server:
            await context.lease.start(server.port)
            topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=30)
            control.cluster.apply(snapshot(topic, agents=agents))
            client = await RawClient.connect(server.port)
            (directory,) = (await client.ask(35, 4, topics=None)).results
            led[node_id] = {
                part.partition_index for each in directory.topics for part in each.partitions
            }
            (known,) = (await client.ask(3, 4, topics=None, allow_auto_topic_creation=False)).topics
            leaders = {part.partition_index: part.leader_id for part in known.partitions}
            await client.close()
        await context.lease.stop_renewing()
    assert all(led.values())
    assert led == {n: {p for p, leader in leaders.items() if leader == n} for n in (1, 2, 3)}


def _sizes(command: Command) -> Reply:
    states = [PartitionState(size=7) for _ in command.read_partitions.partitions]
    return Reply(partitions_read=PartitionsRead(partitions=states))


@pytest.mark.parametrize("version", range(1, 3))
async def test_there_is_one_log_dir(setup: Setup, version: int) -> None:
    await setup.create("t")
    topic = nested(34, version, "AlterReplicaLogDirTopic", name="t", partitions=(0, 1))
    for path, codes in ((LOG_DIR, [0, UNKNOWN_TOPIC]), ("/nope", [57, 57])):
        directory = nested(34, version, "AlterReplicaLogDir", path=path, topics=(topic,))
        (found,) = (await setup.ask(34, version, dirs=(directory,))).results
        assert [each.error_code for each in found.partitions] == codes


@pytest.mark.parametrize("version", range(3))
async def test_a_quorum_of_one(setup: Setup, version: int) -> None:
    """KIP-836 from v1 on, KIP-853 at v2."""
    part = nested(55, version, "PartitionData", partition_index=0)
    topic = nested(55, version, "TopicData", topic_name="__cluster_metadata", partitions=(part,))
    answer = await setup.ask(55, version, topics=(topic,))
    (found,) = answer.topics[0].partitions
    assert (answer.error_code, found.error_code, found.leader_id) == (0, 0, 1)
    (voter,) = found.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, found.high_watermark)
    assert found.high_watermark == setup.running.control.cluster.version
    if version >= 2:
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name) == (1, "CONTROLLER")
        assert listener.port == setup.running.server.port


async def test_the_other_agents_are_observers() -> None:
    control = ScriptedControl()
    agents = tuple(Agent(node_id=n, host="127.0.0.1", port=9000 + n) for n in (1, 2, 3))
    context = make_context(control)
    async with serving(context) as server:
        await context.lease.start(server.port)
        control.cluster.apply(snapshot(agents=agents))
        client = await RawClient.connect(server.port)
        part = nested(55, 2, "PartitionData", partition_index=0)
        topic = nested(55, 2, "TopicData", topic_name="__cluster_metadata", partitions=(part,))
        answer = await client.ask(55, 2, topics=(topic,))
        await client.close()
    (found,) = answer.topics[0].partitions
    assert [each.replica_id for each in found.current_voters] == [1]
    assert [each.replica_id for each in found.observers] == [2, 3]
    assert [node.node_id for node in answer.nodes] == [1]
    await context.lease.stop_renewing()


async def test_an_assignment_to_another_agent_is_refused() -> None:
    """Kafka would move it; here the sentence says what to do."""
    control = ScriptedControl()
    agents = tuple(Agent(node_id=n, host="127.0.0.1", port=9000 + n) for n in (1, 2))
    topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=1)
    control.cluster.apply(snapshot(topic, agents=agents))
    codes = {}
    async with serving(make_context(control)) as server:
        client = await RawClient.connect(server.port)
        for replicas in ((1,), (2,), (1, 2)):
            part = nested(45, 1, "ReassignablePartition", partition_index=0, replicas=replicas)
            asked = nested(45, 1, "ReassignableTopic", name="t", partitions=(part,))
            answer = await client.ask(
                45, 1, timeout=SECOND, allow_replication_factor_change=True, topics=(asked,)
            )
            (found,) = answer.responses[0].partitions
            codes[replicas] = found.error_code
            assert not found.error_code or "no replicas to move" in found.error_message
        await client.close()
    assert sorted((codes[1,], codes[2,])) == [0, 39]
    assert codes[1, 2] == 39


async def test_a_live_agent_cannot_be_unregistered(setup: Setup) -> None:
    live = await setup.ask(64, 0, broker_id=1)
    assert live.error_code == INVALID_REQUEST
    assert "stop it" in live.error_message
    assert (await setup.ask(64, 0, broker_id=2)).error_code == NOT_REGISTERED


@pytest.mark.parametrize("level", range(4))
async def test_features_stay_as_they_are(setup: Setup, level: int) -> None:
    update = nested(
        57, 1, "FeatureUpdateKey", feature="transaction.version", max_version_level=level,
        upgrade_type=3,
    )  # fmt: skip
    answer = await setup.ask(57, 1, timeout=SECOND, feature_updates=(update,), validate_only=False)
    assert answer.error_code == (0 if level == 2 else 95)


async def test_quotas_and_credentials_are_not_kept(setup: Setup) -> None:
    entity = nested(49, 1, "EntityData", entity_type="client-id", entity_name="a")
    operation = nested(49, 1, "OpData", key="producer_byte_rate", value=1.5, remove=False)
    entry = nested(49, 1, "EntryData", entity=(entity,), ops=(operation,))
    (found,) = (await setup.ask(49, 1, entries=(entry,), validate_only=False)).entries
    assert found.error_code == INVALID_REQUEST
    assert "not enforced" in found.error_message
    new = nested(
        51, 0, "ScramCredentialUpsertion", name="u", mechanism=1, iterations=4096, salt=b"s",
        salted_password=b"p",
    )  # fmt: skip
    (refused,) = (await setup.ask(51, 0, deletions=(), upsertions=(new,))).results
    assert (refused.user, refused.error_code) == ("u", 33)


async def test_telemetry_asks_for_nothing_and_keeps_nothing(setup: Setup) -> None:
    """KIP-714, docs/adr/0017: a client keeps its id; what it pushes is bounded and dropped."""
    first = await setup.ask(71, 0, client_instance_id=None)
    other = await setup.ask(71, 0, client_instance_id=None)
    mine = first.client_instance_id
    assert mine.version == 4
    assert mine != other.client_instance_id
    again = await setup.ask(71, 0, client_instance_id=mine)
    assert again.client_instance_id == mine
    assert first.requested_metrics == ()
    assert first.push_interval == datetime.timedelta(minutes=5)

    async def push(**over: Any) -> int:
        fields = {
            "client_instance_id": mine,
            "subscription_id": first.subscription_id,
            "terminating": True,
            "compression_type": 4,
            "metrics": b"no zstd",
        }
        return int((await setup.ask(72, 0, **(fields | over))).error_code)

    assert await push() == 0
    assert await push(metrics=b"x" * (1 << 20)) == 0
    assert await push(metrics=b"x" * ((1 << 20) + 1)) == 118
    assert await push(subscription_id=99) == 117
    assert await push(compression_type=7) == 76
    assert await push(client_instance_id=None) == INVALID_REQUEST
    assert not {71, 72} & set(setup.running.context.registry.advertised())


async def test_loggers_have_their_levels(setup: Setup) -> None:
    log = logging.getLogger("lacuna.agent.fetch")
    before = log.level
    log.setLevel(logging.DEBUG)
    try:
        resource = nested(
            32, 4, "DescribeConfigsResource", resource_type=8, resource_name="1",
            configuration_keys=None,
        )  # fmt: skip
        answer = await setup.ask(
            32, 4, resources=(resource,), include_synonyms=True, include_documentation=True
        )
    finally:
        log.setLevel(before)
    (found,) = answer.results
    levels = {each.name: (each.value, each.config_source) for each in found.configs}
    assert levels["lacuna.agent.fetch"] == ("DEBUG", 6)
    assert set(levels) >= {"root", "lacuna.agent"}


@pytest.mark.parametrize("has_cursor", [False, True])
async def test_tagged_fields_that_are_not_known_are_skipped(setup: Setup, has_cursor: bool) -> None:
    """KIP-482: also in and behind the cursor, which may be null."""
    await setup.create("t", 3)
    unknown = b"\x01\x07\x02hi"
    cursor = b"\x01" + b"\x02t" + struct.pack(">i", 1) + unknown if has_cursor else b"\xff"
    body = b"\x02" + b"\x02t" + unknown + struct.pack(">i", 9) + cursor + unknown
    setup.client.send(encode_request(75, 0, body))
    frame = await setup.client.frame()
    answer, _ = entity_reader(response_class(75, 0))(frame, 4 + response_header_version(75, 0))
    (topic,) = answer.topics
    found = [each.partition_index for each in topic.partitions]
    assert found == ([1, 2] if has_cursor else [0, 1, 2])


async def test_topic_partitions_end_at_two_thousand(setup: Setup) -> None:
    """KIP-966: an answer is bounded whatever is asked for, and a cursor goes on to the end."""
    for name in ("a", "b", "c"):
        await setup.create(name, 900)
    cursor, seen, answers = None, [], 0
    while True:
        answer = await setup.ask(
            75, 0, topics=(), response_partition_limit=2**31 - 1, cursor=cursor
        )
        answers += 1
        seen += [(each.name, p.partition_index) for each in answer.topics for p in each.partitions]
        assert all(isinstance(each.topic_id, UUID) for each in answer.topics)
        if answer.next_cursor is None:
            break
        at = answer.next_cursor
        cursor = nested(
            75, 0, "Cursor", topic_name=at.topic_name, partition_index=at.partition_index
        )
    assert seen == [(name, index) for name in "abc" for index in range(900)]
    assert answers == 2


async def test_all_topic_partitions_go_on_where_the_topic_of_the_cursor_is_gone(
    setup: Setup,
) -> None:
    """As in Kafka; without topics in the request there is no place for an error either."""
    for name in ("a", "c"):
        await setup.create(name, 2)

    async def ask(cursor: tuple[str, int] | None, limit: int) -> tuple[list[Any], Any]:
        at = cursor and nested(75, 0, "Cursor", topic_name=cursor[0], partition_index=cursor[1])
        answer = await setup.ask(75, 0, topics=(), response_partition_limit=limit, cursor=at)
        rows = [(each.name, len(each.partitions)) for each in answer.topics]
        left = answer.next_cursor
        return rows, left and (left.topic_name, left.partition_index)

    assert await ask(("b", 1), 9) == ([("c", 2)], None)
    assert await ask(("d", 0), 9) == ([], None)
    assert await ask(None, 2) == ([("a", 2)], ("c", 0))


async def test_an_agent_shows_the_defaults_of_topics_and_has_each_config_once(setup: Setup) -> None:
    """Under the names that Kafka's brokers have for them."""
    resource = nested(
        32,
        4,
        "DescribeConfigsResource",
        resource_type=4,
        resource_name="1",
        configuration_keys=None,
    )
    answer = await setup.ask(
        32, 4, resources=(resource,), include_synonyms=False, include_documentation=False
    )
    (found,) = answer.results
    names = [each.name for each in found.configs]
    assert names == sorted(set(names))
    shown = {each.name: (each.value, each.config_source, each.read_only) for each in found.configs}
    assert shown["message.max.bytes"] == ("1048588", 5, True)
    assert shown["log.retention.bytes"] == ("-1", 5, True)
    assert shown["log.dirs"] == (LOG_DIR, 4, True)
    assert shown["node.id"] == shown["broker.id"] == ("1", 4, True)


@pytest.mark.parametrize("api_key", [43, 45, 32])
async def test_what_another_agent_has_just_made_is_there(api_key: int) -> None:
    """A tool makes a topic through one agent and asks the next one, whose view has not got it yet."""
    control = ScriptedControl()
    control.cluster.apply(snapshot())

    def come(_: Command) -> Reply:
        control.cluster.apply(snapshot(Topic(topic_id=TOPIC_ID, name="t", partition_count=1)))
        return Reply(partitions_read=PartitionsRead())

    control.answers["read_partitions"] = come
    async with serving(make_context(control)) as server:
        client = await RawClient.connect(server.port)
        if api_key == 43:
            named = nested(43, 2, "TopicPartitions", topic="t", partitions=(0,))
            fields = {"election_type": 0, "topic_partitions": (named,), "timeout": SECOND}
            answer = await client.ask(43, 2, **fields)
            found = answer.replica_election_results[0].partition_result[0].error_code
        elif api_key == 45:
            one = nested(45, 0, "ReassignablePartition", partition_index=0, replicas=(1,))
            named = nested(45, 0, "ReassignableTopic", name="t", partitions=(one,))
            answer = await client.ask(45, 0, timeout=SECOND, topics=(named,))
            found = answer.responses[0].partitions[0].error_code
        else:
            named = nested(
                32,
                4,
                "DescribeConfigsResource",
                resource_type=2,
                resource_name="t",
                configuration_keys=None,
            )
            answer = await client.ask(
                32, 4, resources=(named,), include_synonyms=False, include_documentation=False
            )
            found = answer.results[0].error_code
        await client.close()
    assert found != UNKNOWN_TOPIC
