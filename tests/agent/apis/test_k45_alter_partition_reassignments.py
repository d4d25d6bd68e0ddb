"""AlterPartitionReassignments over the wire: every version, and errors."""

from lacuna.controlplane.v1.cluster_pb2 import Agent, Topic
from tests.agent.apis.clusters import SECOND
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    make_context,
    serving,
    snapshot,
)
from tests.messages import nested


async def test_an_assignment_to_another_agent_is_refused() -> None:
    """Kafka would move it; here, the message says what to do."""
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
                45, 1, timeout_ms=SECOND, allow_replication_factor_change=True, topics=(asked,)
            )
            (found,) = answer.responses[0].partitions
            codes[replicas] = found.error_code
            assert not found.error_code or "no replicas to move" in found.error_message
        await client.close()
    assert sorted((codes[1,], codes[2,])) == [0, 39]
    assert codes[1, 2] == 39
