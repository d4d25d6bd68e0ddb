"""A topic and agents for tests of Metadata and of placement."""

from lacuna.controlplane.v1.cluster_pb2 import (
    Agent,
    Topic,
)
from tests.agent.harness import (
    TOPIC_ID,
)

TOPIC = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)


def agents(count: int, zones: str = "") -> tuple[Agent, ...]:
    return tuple(
        Agent(node_id=i, host=f"h{i}", port=9, zone=zones[i % len(zones)] if zones else "")
        for i in range(1, count + 1)
    )
