"""An agent without a control plane behind it, and a client that speaks frames."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from random import Random
from typing import Any

from kio.serial import entity_reader, entity_writer

from agent.apis.registry import (
    Registry,
    discover,
    request_header_version,
    response_header_version,
)
from agent.apis.schema import request_class, response_class
from agent.clock import SystemClock
from agent.context import AgentContext
from agent.fetch.service import FetchService
from agent.lease import AgentLease
from agent.metrics import AgentMetrics
from agent.produce.service import ProduceService
from agent.server import AgentServer
from agent.settings import AgentSettings
from controlplane.client.views import ClusterView, PartitionView
from controlplane.v1.cluster_pb2 import Agent, AgentRegistered, ClusterDelta, Topic
from controlplane.v1.control_pb2 import Command, Reply
from logstore.objects.memory import MemoryStore

TOPIC_ID = bytes(range(16))


class NoFeed:
    """A view that is never refreshed."""

    def want(self, view: PartitionView) -> None:
        """Nothing comes."""

    def want_cluster(self) -> None:
        """Nothing comes."""


class ScriptedControl:
    """A ControlClient whose answers the test gives: verb name -> reply or exception or function."""

    def __init__(self) -> None:
        self.cluster = ClusterView(NoFeed())
        self.calls: list[Command] = []
        self.given_up = 0
        self.otherwise: Reply | Exception = Reply()
        self.answers: dict[str, Reply | Exception | Callable[[Command], Reply]] = {
            "register_agent": Reply(
                agent_registered=AgentRegistered(
                    node_id=1, lease_id=7, lease_duration_ms=30_000, cluster_id="c"
                )
            )
        }

    async def call(self, command: Command) -> Reply:
        """Answers as scripted."""
        self.calls.append(command)
        verb = str(command.WhichOneof("verb"))
        answer = self.answers.get(verb, self.otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer(command) if callable(answer) else answer

    def give_up_unsent(self, reason: str) -> None:
        """Everything is sent at once; counts how often it was asked."""
        self.given_up += 1

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """No view is ever current."""
        return PartitionView(topic_id, partition, NoFeed())

    async def close(self) -> None:
        """Nothing is open."""


def snapshot(*topics: Topic, agents: tuple[Agent, ...] = ()) -> ClusterDelta:
    """A cluster of these topics and agents (one agent, node 1, when none are given)."""
    live = agents or (Agent(node_id=1, host="127.0.0.1", port=9092),)
    return ClusterDelta(
        version=1, is_snapshot=True, cluster_id="c", topics=topics, has_agents=True, agents=live
    )


def make_context(
    control: Any, settings: AgentSettings | None = None, registry: Registry | None = None
) -> AgentContext:
    """A context with everything real but `control`."""
    settings = settings or AgentSettings()
    metrics = AgentMetrics()
    clock, store = SystemClock(), MemoryStore()
    lease = AgentLease(control, settings, metrics)
    fetch = FetchService(
        control=control, store=store, cluster_id=lambda: lease.cluster_id, randint=Random(1).randint
    )
    return AgentContext(
        control=control,
        store=store,
        clock=clock,
        randomness=Random(1),
        settings=settings,
        registry=registry or discover(),
        lease=lease,
        metrics=metrics,
        produce=ProduceService(control=control, store=store, lease=lease, clock=clock, fetch=fetch),
        fetch=fetch,
    )


@asynccontextmanager
async def serving(context: AgentContext) -> AsyncIterator[AgentServer]:
    """A started server, stopped at the end."""
    server = AgentServer(context)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def encode_request(
    api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    """A whole frame, size included."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id))
    header += client_id.encode()
    if request_header_version(api_key, version) == 2:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def encode_body(request: Any) -> bytes:
    """kio's bytes of a request."""
    buffer = BytesIO()
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


def nested(api_key: int, version: int, name: str, /, **fields: Any) -> Any:
    """A value nested in a request of that API and version."""
    module = __import__(request_class(api_key, version).__module__, fromlist=[name])
    return getattr(module, name)(**fields)


class RawClient:
    """One connection; frames out, frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "RawClient":
        """To 127.0.0.1."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.writer.write(data)

    async def frame(self) -> bytes:
        """The next answer without its size. Raises asyncio.IncompleteReadError once closed."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """True once the server has closed; anything else that comes is a failure."""
        return await self.reader.read(1) == b""

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """kio's answer to a request of these fields."""
        request = request_class(api_key, version)(**fields)
        self.send(encode_request(api_key, version, encode_body(request)))
        frame = await self.frame()
        start = 4 + response_header_version(api_key, version)
        response, size = entity_reader(response_class(api_key, version))(frame, start)
        assert start + size == len(frame)
        return response

    async def close(self) -> None:
        """Close and wait for it."""
        self.writer.close()
        await self.writer.wait_closed()


async def with_client(context: AgentContext, do: Callable[[RawClient], Awaitable[None]]) -> None:
    """Serve, connect, do, close."""
    async with serving(context) as server:
        client = await RawClient.connect(server.port)
        await do(client)
        await client.close()
