"""A live agent cut off from the control plane: others are named until it comes back (S2, S12). Also, the placement of
partitions, groups and transactions on agents.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lacuna.agent import placement, rendezvous
from lacuna.agent.fetch.chunks import ChunkId
from lacuna.agent.lease import AgentLease
from lacuna.agent.metrics import AgentMetrics
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlPlaneUnavailable, GrpcClient, SessionLimits
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.service import RunningControlPlane, ServiceSettings, serve
from lacuna.controlplane.state.settings import SESSION_GRACE_MS
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from tests.agent.harness import (
    TOPIC,
    TOPIC_ID,
    ScriptedControl,
    agents,
    make_context,
    snapshot,
)
from tests.doubles.clock import ManualClock

SECONDS = 60.0


class Line:
    """A TCP connection between a client and the control plane that can be cut and restored."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def join(self) -> None:
        port = int(self.address.rpartition(":")[2] or 0)
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def cut(self) -> None:
        """Cut the connection, as if the process at its end had died."""
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
        self._open.discard(writer)


class Client(GrpcClient):
    """Reports when the lease was renewed."""

    def __init__(self, address: str) -> None:
        super().__init__(address, lambda: 0.5, SessionLimits(give_up_after=60))
        self.renewed = asyncio.Event()

    async def call(self, command: Command) -> Reply:
        reply = await super().call(command)
        if command.HasField("renew_lease"):
            self.renewed.set()
        return reply


class Member:
    """A client of the control plane with a separate connection, and an agent's lease over it."""

    def __init__(self, line: Line, port: int) -> None:
        self.line = line
        self.client = Client(line.address)
        self.lease = AgentLease(
            self.client,
            AgentSettings(listeners=(Listener(advertised=("127.0.0.1", port)),)),
            AgentMetrics(),
        )
        self.dropped = 0
        self.lease.on_lost = self._drop

    def _drop(self) -> None:
        self.dropped += 1

    async def start(self) -> None:
        self.client.start()
        await self.lease.start(0)

    def named(self) -> list[int]:
        """Return the ports of the agents that this one would name to its clients."""
        return [agent.port for agent in self.client.cluster.agents]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a condition, which is checked again at each change of the cluster."""
        changed = asyncio.Event()
        self.client.cluster.add_listener(changed.set)
        async with asyncio.timeout(SECONDS):
            while not is_so():
                await changed.wait()
                changed.clear()
        self.client.cluster.remove_listener(changed.set)


Pair = tuple[Member, Member]


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Clock:
    """The control plane's clock: the real one, unless a test replaces it."""
    given: Clock = getattr(request, "param", None) or SystemClock()
    return given


@pytest.fixture
async def control(tmp_path: Path, clock: Clock) -> AsyncIterator[RunningControlPlane]:
    """A real control plane over TCP."""
    given = ("127.0.0.1:0", str(tmp_path / "control.db"))
    running = await serve(*given, ServiceSettings(stop_grace=0.0), clock=clock)
    yield running
    await running.close()


@pytest.fixture
async def pair(control: RunningControlPlane) -> AsyncIterator[Pair]:
    """Agents with ports 1 and 2."""
    made = []
    for port in (1, 2):
        line = Line(control.address)
        await line.join()
        made.append(Member(line, port))
        await made[-1].start()
    one, two = made
    await one.until(lambda: one.named() == [1, 2])
    yield one, two
    for each in made:
        await each.lease.stop_renewing()
        await each.client.close()
        await each.line.cut()


@pytest.mark.slow
async def test_who_is_cut_off_is_not_named_until_he_is_back(pair: Pair) -> None:
    """Earlier requests from its clients are dropped, since the clients have asked others in the meantime."""
    one, two = pair
    lease_id = one.lease.lease_id
    await one.line.cut()
    waiting = asyncio.ensure_future(one.client.call(Command(read_partitions=ReadPartitions())))
    await two.until(lambda: two.named() == [2])
    assert two.client.cluster.hidden_lease_ids == {lease_id}
    assert one.named() == [1, 2], "he heard nothing of it"
    await one.line.join()
    with pytest.raises(ControlPlaneUnavailable):
        async with asyncio.timeout(SECONDS):
            await waiting
    await two.until(lambda: two.named() == [1, 2])
    await one.until(lambda: one.named() == [1, 2])
    assert (one.lease.lease_id, one.dropped, two.dropped) == (lease_id, 1, 0)


@pytest.mark.parametrize("clock", [ManualClock()], indirect=True)
async def test_a_blip_is_not_seen(pair: Pair, clock: ManualClock) -> None:
    """An agent that gets a new session in time renews its lease immediately, and never disappears."""
    one, two = pair
    named: list[list[int]] = []
    two.client.cluster.add_listener(lambda: named.append(two.named()))
    one.client.renewed.clear()
    await one.line.cut()
    clock.advance(SESSION_GRACE_MS - 1)
    await one.line.join()
    async with asyncio.timeout(SECONDS):
        await one.client.renewed.wait()
    clock.advance(SESSION_GRACE_MS)
    await two.client.call(Command(read_partitions=ReadPartitions()))
    assert (one.named(), two.named(), named, one.dropped) == ([1, 2], [1, 2], [], 0)


def test_placement_spreads_and_moves_only_what_it_must() -> None:
    keys = [rendezvous.partition_key(TOPIC_ID, partition) for partition in range(3000)]
    before = {key: rendezvous.place(key, (1, 2, 3)) for key in keys}
    assert min(list(before.values()).count(node) for node in (1, 2, 3)) > 850
    after = {key: rendezvous.place(key, (1, 3)) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != 2)


def test_chunks_are_spread_and_only_the_share_of_who_leaves_or_comes_moves() -> None:
    chunks = [
        ChunkId(lease, sequence, number)
        for lease in range(10)
        for sequence in range(30)
        for number in range(10)
    ]

    def owners(*nodes: int) -> dict[ChunkId, int]:
        return {each: rendezvous.place_once(each.placement_key, nodes) for each in chunks}

    before, after, more = owners(1, 2, 3, 4), owners(1, 2, 4), owners(1, 2, 3, 4, 5)
    assert min(list(before.values()).count(node) for node in (1, 2, 3, 4)) > 650
    assert {each for each in chunks if after[each] != before[each]} == {
        each for each in chunks if before[each] == 3
    }
    assert {more[each] for each in chunks if more[each] != before[each]} == {5}
    assert owners(4, 2, 1) == after


def test_placement_remembers_no_long_names() -> None:
    """Clients choose group names, and tens of thousands of placements are cached."""
    size = rendezvous.remembered.cache_info().currsize
    nodes = (1, 2, 3, 4)
    longs = [b"group:" + b"%d" % number * 9000 for number in range(20)]
    assert {rendezvous.place(key, nodes) for key in longs} <= set(nodes)
    assert rendezvous.remembered.cache_info().currsize == size
    rendezvous.place(b"group:test_placement_remembers", nodes)
    assert rendezvous.remembered.cache_info().currsize == size + 1


async def test_placement_keeps_to_our_zone() -> None:
    control = ScriptedControl()
    control.cluster.apply(snapshot(TOPIC, agents=agents(4, "ab")))
    near = make_context(control, AgentSettings(zone="a"))
    assert [agent.node_id for agent in placement.candidates(near)] == [2, 4]
    elsewhere = make_context(control, AgentSettings(zone="c"))
    assert len(placement.candidates(elsewhere)) == 4
