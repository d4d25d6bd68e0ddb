"""DescribeQuorum over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.v1.cluster_pb2 import Agent
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient, ScriptedControl, make_context, serving, snapshot
from tests.messages import nested


@pytest.mark.parametrize("version", range(3))
async def test_a_quorum_of_one(setup: Setup, version: int) -> None:
    """KIP-836 from v1 on, and KIP-853 at v2."""
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
