import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lacuna.controlplane.client import ControlClient, GrpcClient, SessionLimits
from lacuna.controlplane.service import LoneControlPlane, Server, ServiceSettings
from tests.controlplane.runtime.rig import Connect, Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = await Rig().start()
    yield rig
    await rig.runtime.close()


@pytest.fixture(params=["in-process", "grpc"])
async def connect(request: pytest.FixtureRequest, rig: Rig) -> AsyncIterator[Connect]:
    """Create clients with bounds over either transport. They give up `give_up_after` seconds after losing a session."""
    server = Server(LoneControlPlane(rig.runtime), ServiceSettings(stop_grace=0.0))
    await server.start("127.0.0.1:0")
    clients: list[ControlClient] = []

    async def connected(*, give_up_after: float = 60, **bounds: int) -> ControlClient:
        client: ControlClient
        if request.param == "in-process":
            client = rig.client(**bounds)
        else:
            settings = SessionLimits(**bounds, first_pause=0.001, give_up_after=60)
            client = GrpcClient(server.address, random.Random(1).random, settings)
            client.start()
        clients.append(client)
        await client.cluster.ready()
        if isinstance(client, GrpcClient):
            client._limits = replace(client._limits, give_up_after=give_up_after)
        return client

    yield connected
    for client in clients:
        await client.close()
    await server.stop()


@pytest.fixture
async def client(connect: Connect) -> ControlClient:
    return await connect()
