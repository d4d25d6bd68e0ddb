"""An agent with a scripted control plane, and a client that sends and receives frames."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from time import monotonic
from typing import Any

from lacuna.agent.apis import discover
from lacuna.agent.client import Peer
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.context import AgentContext
from lacuna.agent.fetch.service import FetchService
from lacuna.agent.guards import guarded
from lacuna.agent.hot import HotStore
from lacuna.agent.lease import AgentLease
from lacuna.agent.members import Members
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.peer_lines import PeerLines
from lacuna.agent.produce.service import ProduceService
from lacuna.agent.quotas.quotas import Quotas
from lacuna.agent.registry import Registry, response_header_version
from lacuna.agent.security.access import Access
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import Listener
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.server import AgentServer
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client.views import ClusterView, PartitionView
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.cluster_pb2 import Agent, AgentRegistered, ClusterDelta, Topic
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.wire.peers import OWN_KEYS
from tests.golden import messages as golden
from tests.messages import REQUESTS, RESPONSES, encode_body, read_exactly, request

TOPIC_ID = bytes(range(16))


async def unreachable(agent: Agent) -> "asyncio.Future[None]":
    """Raise an error: no other agent can be reached."""
    raise ConnectionRefusedError


class NoFeed:
    """A feed that never updates its views."""

    def want(self, view: PartitionView) -> None:
        """Does nothing."""

    def want_cluster(self) -> None:
        """Does nothing."""

    def note_use(self, view: PartitionView) -> None:
        """Does nothing."""


class ScriptedControl:
    """A ControlClient with scripted answers: `answers` maps a verb's name to a reply, an exception or a function."""

    def __init__(self) -> None:
        self.cluster = ClusterView(NoFeed())
        self.journal_position = 0
        self.is_shut_out = False
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
        """Records the command, and returns or raises the scripted answer to its verb."""
        self.calls.append(command)
        verb = str(command.WhichOneof("verb"))
        answer = self.answers.get(verb, self.otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer(command) if callable(answer) else answer

    def give_up_unsent(self, reason: str) -> None:
        """Only count the calls, since no command is ever unsent."""
        self.given_up += 1

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        """Return a new view, which never becomes current."""
        return PartitionView(topic_id, partition, NoFeed())

    async def close(self) -> None:
        """Does nothing."""


def snapshot(*topics: Topic, agents: tuple[Agent, ...] = ()) -> ClusterDelta:
    """The delta of a whole cluster with these topics and agents (by default, one agent with node id 1)."""
    live = agents or (Agent(node_id=1, host="127.0.0.1", port=9092),)
    return ClusterDelta(
        version=1,
        is_snapshot=True,
        cluster_id="c",
        topics=topics,
        has_agents=True,
        agents=live,
        lease_ids=range(1, 100),
    )


def open_to_all() -> Access:
    """Return the access rules that let every client in."""
    return Access(SecuritySettings(), (Listener(),), Security(), SystemWallClock())


def anybody() -> Peer:
    """Return a client of a listener without authentication."""
    return Peer(host="h", port=1, session=Authentication(Listener(), SystemWallClock()))


def make_context(
    control: Any,
    settings: AgentSettings | None = None,
    access: Access | None = None,
) -> AgentContext:
    """Return an agent's context in which everything is real except `control`."""
    settings = settings or AgentSettings()
    metrics = AgentMetrics()
    access = access or open_to_all()
    clock, store = SystemWallClock(), HotStore(MemoryStore(), control)
    lease = AgentLease(control, settings, metrics)
    fetch = FetchService(
        control=control,
        store=store,
        trust=lease.trust,
        cluster_id=lambda: lease.cluster_id,
        randint=Random(1).randint,
    )
    return AgentContext(
        control=control,
        store=store,
        clock=clock,
        randomness=Random(1),
        settings=settings,
        advertised=discover().advertised(),
        lease=lease,
        metrics=metrics,
        produce=ProduceService(
            control=control,
            store=store,
            lease=lease,
            clock=clock,
            hot=store,
            fetch=fetch,
        ),
        fetch=fetch,
        members=Members(control, lease.trust),
        lines=PeerLines(control, lease, unreachable),
        access=access,
        quotas=Quotas(control.cluster.security),
    )


def make_server(context: AgentContext, registry: Registry | None = None) -> AgentServer:
    """Return an unstarted server for `registry`'s APIs, by default all, with their guards."""
    clock = monotonic
    apis = guarded(registry or discover(), context.access.authorizer, context.metrics, clock)
    return AgentServer(context, apis)


@asynccontextmanager
async def serving(
    context: AgentContext, registry: Registry | None = None
) -> AsyncIterator[AgentServer]:
    """Starts a server for the block and stops it afterwards."""
    server = make_server(context, registry)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def encode_request(
    api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    """Return a whole request frame, including its size."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id))
    header += client_id.encode()
    if _header_version(api_key, version) == 2:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


@cache
def _header_version(api_key: int, version: int) -> int:
    """Return Kafka's header version, or that of the nearest version if Kafka lacks this one."""
    if api_key in OWN_KEYS:
        return 1
    written = golden.requests(api_key)
    return min(written, key=lambda each: abs(each.version - version)).header_version


def read_answer(frame: bytes, api_key: int, version: int) -> Any:
    """Decode the answer in a frame without its size. Raises if it cannot be decoded or bytes remain."""
    start = 4 + response_header_version(api_key, version)
    return read_exactly(RESPONSES[api_key], frame[start:], version)


_KEYS = {message.body.make: key for key, message in REQUESTS.items()}


class RawClient:
    """A connection that sends and receives frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "RawClient":
        """Connects to a port of 127.0.0.1."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    @asynccontextmanager
    async def connected(cls, port: int) -> AsyncIterator["RawClient"]:
        """Connects for the block."""
        client = await cls.connect(port)
        try:
            yield client
        finally:
            await client.close()

    def send(self, data: bytes) -> None:
        """Sends bytes unchanged."""
        self.writer.write(data)

    async def frame(self) -> bytes:
        """Return the next answer without its size. Raises asyncio.IncompleteReadError once closed."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Waits for the server to close the connection; False if it sends a byte instead."""
        return await self.reader.read(1) == b""

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Sends a request with these fields, and returns the response."""
        body = encode_body(api_key, version, request(api_key, version, **fields))
        self.send(encode_request(api_key, version, body))
        return read_answer(await self.frame(), api_key, version)

    async def call(self, version: int, asked: Any) -> Any:
        """Sends a request of lacuna.wire, and returns the response."""
        api_key = _KEYS[type(asked)]
        self.send(encode_request(api_key, version, encode_body(api_key, version, asked)))
        return read_answer(await self.frame(), api_key, version)

    async def close(self) -> None:
        """Closes the connection and waits until it is closed."""
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def client_of(
    context: AgentContext, registry: Registry | None = None
) -> AsyncIterator[RawClient]:
    """Start a server for the block, and connect to it."""
    async with serving(context, registry) as server, RawClient.connected(server.port) as client:
        yield client


TOPIC = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)


def agents(count: int, zones: str = "") -> tuple[Agent, ...]:
    return tuple(
        Agent(node_id=i, host=f"h{i}", port=9, zone=zones[i % len(zones)] if zones else "")
        for i in range(1, count + 1)
    )
