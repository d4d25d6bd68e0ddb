"""A server whose handlers wait until the test releases them, for tests of connections."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest
import uvloop

from lacuna.agent.api import Api, Call, MalformedRequest
from lacuna.agent.context import AgentContext
from lacuna.agent.registry import Registry
from lacuna.agent.settings import AgentSettings
from lacuna.wire import kernel
from lacuna.wire.layout import Buffer, Message
from tests.agent.harness import RawClient, ScriptedControl, encode_request, make_context

M = TypeVar("M")
Q = TypeVar("Q")
R = TypeVar("R")

PIPELINED, SEQUENTIAL, WAITING = 0, 12, 11
ADD_PARTITIONS, ADD_OFFSETS = 24, 25


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()], ids=["asyncio", "uvloop"]
)
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Run every test that uses this fixture on both event loops."""
    policy: asyncio.AbstractEventLoopPolicy = request.param
    return policy


class MadeUp(Message[M]):
    """A message with an encoding chosen by the test."""

    def __init__(
        self,
        api_key: int,
        versions: tuple[int, int],
        *,
        read: Callable[..., M] | None = None,
        buffers: Callable[[M, int], list[Buffer]] | None = None,
    ) -> None:
        self.api_key, self.versions = api_key, versions
        self.read = read or (lambda body, version, most=0: cast(M, bytes(body)))
        self.buffers = buffers or (lambda response, version: [cast(bytes, response)])
        self.codec = kernel.Codec(self._plan, versions[1], is_exact=False)  # it has seen no errors


def made_up_api(
    key: int,
    handle: Callable[[Call, Q], Awaitable[R | None]],
    *,
    versions: tuple[int, int] = (0, 1),
    read: Callable[..., Q] | None = None,
    buffers: Callable[[R, int], list[Buffer]] | None = None,
    refuse: Callable[[Call, Q, int], R] | None = None,
    **more: Any,
) -> Api[Q, R]:
    """Return an API whose messages are the bytes of their bodies, unless `read` and `buffers` are given."""

    def no_refusal(call: Call, request: Q, error_code: int) -> R:
        raise AssertionError(f"error {error_code}")

    return Api(
        request=MadeUp(key, versions, read=read),
        response=MadeUp(key, versions, buffers=buffers),
        handle=handle,
        refusal=refuse or no_refusal,
        guard=None,
        **more,
    )


class Doors:
    """Handlers that each wait at a door, named by the request's body, until the test opens it."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}
        self.fail: dict[str, Exception] = {}
        self.step = asyncio.Event()

    def door(self, name: str) -> asyncio.Event:
        return self.doors.setdefault(name, asyncio.Event())

    async def handle(self, call: Call, request: str) -> bytes | None:
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
        def decode(body: memoryview, version: int, most: int) -> str:
            if bytes(body) == b"bad":
                raise MalformedRequest("bad body")
            return bytes(body[:60]).decode()

        def refuse(_call: Call, _request: str, error_code: int) -> bytes:
            return f"error {error_code}".encode()

        def close(_call: Call, _request: str, _error_code: int) -> bytes:
            raise MalformedRequest("nobody waits for an answer")

        def api(key: int, pipelined: bool, waits: bool = False) -> Api[str, bytes]:
            return made_up_api(
                key,
                self.handle,
                read=decode,
                buffers=lambda response, version: [response, memoryview(b"!")],
                refuse=refuse,
                pipelined=pipelined,
                waits=waits,
                unavailable=15,
            )

        transactional = [api(ADD_PARTITIONS, False), api(ADD_OFFSETS, False)]
        without = made_up_api(13, self.handle, read=decode, refuse=close)
        return Registry(
            [
                api(PIPELINED, True),
                api(SEQUENTIAL, False),
                api(WAITING, False, True),
                *transactional,
                without,
            ]
        )


def setup(**settings: Any) -> tuple[Doors, AgentContext]:
    doors = Doors()
    return doors, make_context(ScriptedControl(), AgentSettings(**settings))


def frame(key: int, body: str, correlation_id: int = 0) -> bytes:
    return encode_request(key, 0, body.encode(), correlation_id)


async def answers(client: RawClient, count: int) -> list[tuple[int, str]]:
    found = []
    async with asyncio.timeout(60):
        for _ in range(count):
            data = await client.frame()
            found.append((struct.unpack_from(">i", data)[0], data[4:].decode()))
    return found
