"""The client of a session, whose control plane says what the test has it say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lacuna.controlplane.client import SessionClient
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Reply, SessionRequest, SessionResponse
from tests.controlplane.runtime.commands import heartbeat
from tests.loop_iterations import iterations


class Door:
    """A stream to a control plane."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[SessionResponse] = asyncio.Queue()
        self.heard: asyncio.Queue[SessionRequest] = asyncio.Queue()

    async def read(self) -> SessionResponse:
        return await self.said.get()

    async def write(self, request: SessionRequest) -> None:
        self.heard.put_nowait(request)

    def cancel(self) -> None:
        raise AssertionError("there is no reason to give this stream up")


async def test_nothing_is_sent_before_the_cluster_is_current() -> None:
    """A leader whose journal is slow begins with an empty message, so that it is not taken for dead."""
    door = Door()

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Door]:
        yield door

    client = SessionClient(["a"], connect, lambda: 0.5)
    client.start()
    calling = asyncio.ensure_future(client.call(heartbeat()))
    door.said.put_nowait(SessionResponse(contract=own_contract(), epoch=1))
    await iterations()
    assert door.said.empty()
    assert not client.cluster.is_current
    assert door.heard.empty()
    snapshot = ClusterDelta(is_snapshot=True, cluster_id="c", version=1)
    door.said.put_nowait(SessionResponse(cluster=[snapshot]))
    request = await door.heard.get()
    assert client.cluster.is_current
    (command,) = request.commands
    door.said.put_nowait(SessionResponse(replies=[Reply(command_id=command.command_id)]))
    assert (await calling).command_id == command.command_id
    await client.close()
