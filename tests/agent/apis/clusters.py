"""An agent on a real control plane, and a client that sends requests by API key and version."""

import asyncio
from typing import Any

from lacuna.wire.messages import topics
from tests.agent.harness import RawClient
from tests.agent.plane import Cluster, create_topic

SECOND = 1000
INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC, NOT_REGISTERED = 42, 40, 3, 102


class Setup:
    """A cluster of one agent, and a client connected to it."""

    def __init__(self, running: Cluster, client: RawClient) -> None:
        self.running = running
        self.client = client

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Return the answer to a request with these fields."""
        async with asyncio.timeout(60):
            return await self.client.ask(api_key, version, **fields)

    async def create_topics(
        self, *made: topics.CreatableTopic, version: int = 7, check: bool = False
    ) -> list[Any]:
        """Return the results of CreateTopics for `made`; `check` is validate_only."""
        asked = topics.CreateTopicsRequest(made, SECOND, check)
        answer = await self.client.call(version, asked)
        return list(answer.topics)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic through the control plane."""
        await create_topic(self.running.control, name, partitions, **configs)

    def configs(self, name: str) -> dict[str, str]:
        """Return the configs that a topic was created with."""
        return dict(self.running.control.cluster.topics_by_name[name].configs)


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    *,
    assigned: tuple[int, ...] = (),
    configs: dict[str, str | None] | None = None,
) -> topics.CreatableTopic:
    """Return a topic for CreateTopics; `assigned` lists the partitions that are assigned to a missing broker."""
    return topics.CreatableTopic(
        name,
        count,
        factor,
        [topics.CreatableReplicaAssignment(index, (99,)) for index in assigned],
        [topics.CreatableTopicConfig(*each) for each in (configs or {}).items()],
    )
