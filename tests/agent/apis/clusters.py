"""An agent of a real control plane, and a client that asks it by API key and version."""

import asyncio
from typing import Any

from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command
from tests.agent.harness import RawClient
from tests.agent.plane import Cluster
from tests.messages import nested

SECOND = 1000
INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC, NOT_REGISTERED = 42, 40, 3, 102


class Setup:
    """A cluster of one agent and a client of it."""

    def __init__(self, running: Cluster, client: RawClient) -> None:
        self.running = running
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Return the answer to a request with these fields."""
        async with asyncio.timeout(60):
            return await self.client.ask(api_key, version, **fields)

    async def create_topics(self, *topics: Any, version: int = 7, check: bool = False) -> list[Any]:
        """Return the answers of CreateTopics for `topic`; `check` is validate_only."""
        answer = await self.ask(19, version, topics=topics, timeout_ms=SECOND, validate_only=check)
        return list(answer.topics)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic through the control plane."""
        topic = CreateTopic(
            name=name,
            partition_count=partitions,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        command = Command(create_topics=CreateTopics(topics=[topic]))
        (made,) = (await self.running.control.call(command)).topics_created.topics
        assert made.error_code == 0, made

    def configs(self, name: str) -> dict[str, str]:
        """Return the configs that a topic was created with."""
        return dict(self.running.control.cluster.topics_by_name[name].configs)


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    *,
    version: int = 7,
    assigned: tuple[int, ...] = (),
    configs: dict[str, str | None] | None = None,
) -> Any:
    """Return a topic of CreateTopics; `assigned` has the partitions that name a missing broker."""
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
