"""The cluster that most API tests use."""

from collections.abc import AsyncIterator

import pytest

from lacuna.agent.settings import AgentSettings
from tests.agent.apis.clusters import Setup
from tests.agent.harness import RawClient
from tests.agent.plane import cluster


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    """A cluster of one agent in zone `a`, whose topics have three partitions by default."""
    async with (
        cluster(AgentSettings(num_partitions=3, zone="a")) as running,
        RawClient.connected(running.server.port) as client,
    ):
        yield Setup(running, client)
