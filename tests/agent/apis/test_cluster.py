"""The APIs of a cluster's brokers and replicas at every version, and their errors.

These are AlterReplicaLogDirs, DescribeLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments,
DescribeQuorum, UpdateFeatures, DescribeCluster and UnregisterBroker.
"""

import pytest

from lacuna.controlplane.shared.broker_configs import LOG_DIR
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent, Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead, PartitionState
from lacuna.wire.messages import cluster as wire
from tests.agent.apis.clusters import INVALID_REQUEST, NOT_REGISTERED, SECOND, UNKNOWN_TOPIC, Setup
from tests.agent.fetch.log import make_batch, produce_request
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    client_of,
    make_context,
    serving,
    snapshot,
)


@pytest.mark.parametrize("version", range(1, 3))
async def test_there_is_one_log_dir(setup: Setup, version: int) -> None:
    await setup.create("t")
    topics = [wire.AlterReplicaLogDirTopic("t", (0, 1))]
    for path, codes in ((LOG_DIR, [0, UNKNOWN_TOPIC]), ("/nope", [57, 57])):
        asked = wire.AlterReplicaLogDirsRequest([wire.AlterReplicaLogDir(path, topics)])
        (found,) = (await setup.client.call(version, asked)).results
        assert [each.error_code for each in found.partitions] == codes


@pytest.mark.parametrize("version", range(1, 5))
async def test_log_dirs_have_the_sizes_of_the_extents(setup: Setup, version: int) -> None:
    """KIP-827's volume sizes are unknown, because an object store has no fixed size."""
    await setup.create("t", 2)
    batch = make_batch(b"x" * 500)
    request = produce_request({("t", 1): batch})
    await setup.running.context.produce.produce(request, 12)
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
    """A tool adds up the answers of all brokers, so each partition appears once, at the agent that Metadata names."""
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


PREFERRED, UNCLEAN, NO_SUCH_TYPE = 0, 1, 2


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [PREFERRED, UNCLEAN])
async def test_no_election_is_needed(setup: Setup, version: int, election_type: int) -> None:
    """A topic or partition that does not exist gets its own error."""
    await setup.create("t", 2)
    asked = [wire.TopicPartitions("t", [0, 2]), wire.TopicPartitions("u", [0])]
    answer = await setup.client.call(version, wire.ElectLeadersRequest(election_type, asked, 1000))
    found = [
        (each.topic, part.partition_id, part.error_code)
        for each in answer.replica_election_results
        for part in each.partition_result
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == ErrorCode.NONE
    assert found == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED), ("t", 2, unknown), ("u", 0, unknown)]


async def test_without_partitions_all_topics_are_named(setup: Setup) -> None:
    """The answer lists none of their partitions."""
    await setup.create("t", 2)
    answer = await setup.client.call(2, wire.ElectLeadersRequest(PREFERRED, None, 1000))
    found = [(each.topic, each.partition_result) for each in answer.replica_election_results]
    assert found == [("t", ())]


async def test_an_unknown_type_is_refused(setup: Setup) -> None:
    """The error is returned for each partition."""
    await setup.create("t")
    answer = await setup.client.call(
        2, wire.ElectLeadersRequest(NO_SUCH_TYPE, [wire.TopicPartitions("t", [0])], 1000)
    )
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (result,) = answer.replica_election_results[0].partition_result
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown election type 2",
    )


async def test_an_assignment_to_another_agent_is_refused() -> None:
    """Kafka would move the partition; here, the message says what to do."""
    control = ScriptedControl()
    agents = tuple(Agent(node_id=n, host="127.0.0.1", port=9000 + n) for n in (1, 2))
    topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=1)
    control.cluster.apply(snapshot(topic, agents=agents))
    codes = {}
    async with client_of(make_context(control)) as client:
        for replicas in ((1,), (2,), (1, 2)):
            rows = [wire.ReassignableTopic("t", [wire.ReassignablePartition(0, replicas)])]
            asked = wire.AlterPartitionReassignmentsRequest(SECOND, topics=rows)
            answer = await client.call(1, asked)
            (found,) = answer.responses[0].partitions
            codes[replicas] = found.error_code
            assert not found.error_code or "no replicas to move" in found.error_message
    assert sorted((codes[1,], codes[2,])) == [0, 39]
    assert codes[1, 2] == 39


async def test_nothing_is_reassigned(setup: Setup) -> None:
    """The list is empty for all topics, and for one."""
    await setup.create("t")
    for topics in (None, [wire.ListPartitionReassignmentsTopics("t", [0])]):
        answer = await setup.client.call(0, wire.ListPartitionReassignmentsRequest(1000, topics))
        assert (answer.error_code, answer.topics) == (ErrorCode.NONE, ())


QUORUM = wire.DescribeQuorumRequest([wire.TopicData("__cluster_metadata", [wire.PartitionData(0)])])


@pytest.mark.parametrize("version", range(3))
async def test_a_quorum_of_one(setup: Setup, version: int) -> None:
    """v1 adds the fields of KIP-836, and v2 those of KIP-853."""
    answer = await setup.client.call(version, QUORUM)
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
        async with RawClient.connected(server.port) as client:
            answer = await client.call(2, QUORUM)
    (found,) = answer.topics[0].partitions
    assert [each.replica_id for each in found.current_voters] == [1]
    assert [each.replica_id for each in found.observers] == [2, 3]
    assert [node.node_id for node in answer.nodes] == [1]
    await context.lease.stop_renewing()


@pytest.mark.parametrize("level", range(4))
async def test_features_stay_as_they_are(setup: Setup, level: int) -> None:
    updates = [wire.FeatureUpdateKey("transaction.version", level, upgrade_type=3)]
    answer = await setup.client.call(1, wire.UpdateFeaturesRequest(SECOND, updates))
    assert answer.error_code == (0 if level == 2 else 95)


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(setup: Setup, version: int) -> None:
    asked = wire.DescribeClusterRequest(version > 0, include_fenced_brokers=True)
    answer = await setup.client.call(version, asked)
    (broker,) = answer.brokers
    assert (broker.port, broker.rack) == (setup.running.server.port, "a")
    assert (answer.cluster_id, answer.controller_id) == ("cluster", broker.broker_id)
    operations = answer.cluster_authorized_operations
    assert operations == (-(2**31) if version == 0 else 8096)
    if version >= 1:
        for kind, code in ((2, 114), (9, 115)):
            answer = await setup.client.call(version, asked._replace(endpoint_type=kind))
            assert answer.error_code == code


async def test_a_live_agent_cannot_be_unregistered(setup: Setup) -> None:
    live = await setup.ask(64, 0, broker_id=1)
    assert live.error_code == INVALID_REQUEST
    assert "Stop it" in live.error_message
    assert (await setup.ask(64, 0, broker_id=2)).error_code == NOT_REGISTERED
