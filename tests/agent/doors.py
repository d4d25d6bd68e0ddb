"""A server whose handlers wait until the test lets them go, for tests of connections."""

import asyncio
import struct
from typing import Any

import pytest
import uvloop

from agent.apis.registry import Api, Peer, Registry
from agent.context import AgentContext
from agent.settings import AgentSettings
from agent.wire import MalformedRequest
from tests.agent.harness import RawClient, ScriptedControl, encode_request, make_context

PIPELINED, SEQUENTIAL, WAITING = 0, 12, 11


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()], ids=["asyncio", "uvloop"]
)
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Every test of this file runs on both loops."""
    policy: asyncio.AbstractEventLoopPolicy = request.param
    return policy


class Doors:
    """Handlers that wait until the test lets them go: the body names the door."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}
        self.fail: dict[str, Exception] = {}
        self.step = asyncio.Event()

    def door(self, name: str) -> asyncio.Event:
        return self.doors.setdefault(name, asyncio.Event())

    async def handle(self, context: AgentContext, request: str, peer: Peer) -> Any:
        self.started.append(request)
        self.step.set()
        try:
            if request in self.fail:
                raise self.fail[request]
            if not request.startswith("now"):
                await self.door(request).wait()
            return None if "silent" in request else request.encode()
        finally:
            self.ended.append(request)
            self.step.set()

    async def until(self, started: int = 0, ended: int = 0) -> None:
        async with asyncio.timeout(60):
            while len(self.started) < started or len(self.ended) < ended:
                self.step.clear()
                await self.step.wait()

    def registry(self) -> Registry:
        def decode(body: memoryview, version: int) -> str:
            if bytes(body) == b"bad":
                raise MalformedRequest("bad body")
            return bytes(body[:60]).decode()

        def api(key: int, pipelined: bool, waits: bool = False) -> Api:
            return Api(
                key=key,
                min_version=0,
                max_version=1,
                handle=self.handle,
                decode=decode,
                encode=lambda response, version: [response, memoryview(b"!")],
                refuse=lambda request, code: f"error {code}".encode(),
                pipelined=pipelined,
                waits=waits,
                unavailable=15,
            )

        without = Api(key=13, min_version=0, max_version=0, handle=self.handle, decode=decode)
        return Registry(
            [api(PIPELINED, True), api(SEQUENTIAL, False), api(WAITING, False, True), without]
        )


def setup(**settings: Any) -> tuple[Doors, AgentContext]:
    doors = Doors()
    return doors, make_context(
        ScriptedControl(), AgentSettings(**settings), registry=doors.registry()
    )


def frame(key: int, body: str, correlation_id: int = 0) -> bytes:
    return encode_request(key, 0, body.encode(), correlation_id)


async def answers(client: RawClient, count: int) -> list[tuple[int, str]]:
    found = []
    async with asyncio.timeout(60):
        for _ in range(count):
            data = await client.frame()
            found.append((struct.unpack_from(">i", data)[0], data[4:].decode()))
    return found
