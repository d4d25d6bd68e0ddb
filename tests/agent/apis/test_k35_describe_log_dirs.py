"""DescribeLogDirs over the wire: every version, and errors."""

import pytest

from lacuna.agent.admin.log_dirs import LOG_DIR
from lacuna.controlplane.v1.cluster_pb2 import Agent, Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import PartitionsRead, PartitionState
from tests.agent.apis.clusters import Setup
from tests.agent.fetch.log import make_batch, produce_request
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    make_context,
    serving,
    snapshot,
)


@pytest.mark.parametrize("version", range(1, 5))
async def test_log_dirs_have_the_sizes_of_the_extents(setup: Setup, version: int) -> None:
    """KIP-827's sizes of the volume are unknown, because an object store has no fixed size."""
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
