"""A cluster on virtual time that a test controls: nothing happens except what the test does.

    stage = Stage(agents=2)
    one, two = stage.targets()
    topic = one.topic()
    link = CommitLink(stage, stage.agents[0])
    link.is_cut = True
    sent = one.later(lambda each: each.verdict(topic, batch()))    # sends, and does not wait
    link.wait_for_try()                                     # simulated time passes until then, and no longer
    stage.advance(5.0)
    link.is_cut = False
    assert sent.result() == "NONE"

The test itself is outside of the simulation, which stands still while the test waits for nothing. Each wait has a limit
in simulated seconds.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import struct
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from lacuna.agent.housekeeping import HousekeepingSettings, MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.client.views import ClusterView
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.state.settings import COLLECTION_GRACE_MS, LEASE_DURATION_MS
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.segments import segments_prefix
from lacuna.operating.agents import AgentParts, RunningAgent
from lacuna.testing.faults import FaultyStore, Hold, Operation
from tests.clients.probing import Target, creatable
from tests.clients.wire import ClosedError, Connection
from tests.simulation.cluster import KAFKA_PORT, AgentHost, Host, Surroundings
from tests.simulation.history import History
from tests.simulation.kafka import Client
from tests.simulation.loop import Held, Process
from tests.simulation.network import End
from tests.simulation.planes import ControlPlaneHost, LoneControlPlane, addresses
from tests.simulation.producers import IdempotentProducer
from tests.simulation.store import SimulatedStore

T = TypeVar("T")

#: How many simulated seconds anything may take.
WITHIN: Final = 60.0
#: How often a condition is looked at, in simulated seconds: less than a message takes.
STEP: Final = 0.0001
NEVER: Final = 1 << 40
UNCOMMITTED, COMMITTED = 0, 1
GRACE_SECONDS: Final = COLLECTION_GRACE_MS / 1000

#: Puts every flush, merges and collects only when a test says so, and gives up a commit after 2 s.
PARTS: Final = AgentParts(
    produce=ProduceSettings(commit_timeout_ms=2_000, hot_bytes=0),
    housekeeping=HousekeepingSettings(
        merge_interval_ms=NEVER,
        collect_interval_ms=NEVER,
        merge=MergeSettings(min_extents=2, min_age_ms=0),
    ),
)


class Stage:
    """A control plane and agents. Only the first agent does housekeeping."""

    def __init__(self, agents: int = 2, parts: AgentParts = PARTS) -> None:
        self.around = Surroundings(1)
        self.loop = self.around.loop
        self.parts = parts
        self.store = StagedStore(self)
        self.control = ControlPlaneHost(self.around, RuntimeSettings(), History(self.loop.time))
        self.around.controls = addresses(LoneControlPlane(self.control))
        self.agents: list[StagedAgent] = []
        #: Where the test's clients run.
        self.client = self.loop.process("test")
        self.names = itertools.count(1)
        self.control.start()
        for _ in range(agents):
            self.join()

    def join(self) -> StagedAgent:
        """Start another agent."""
        agent = StagedAgent(self, len(self.agents) + 1)
        self.agents.append(agent)
        agent.start()
        self.until(lambda: agent.agent is not None)
        return agent

    def targets(self) -> list[StagedTarget]:
        """Return a new raw client of each running agent."""
        return [agent.target() for agent in self.agents if agent.is_running]

    def create_topic(self, name: str = "t") -> str:
        """Create a topic of one partition and wait until every agent has it. Return its name."""
        targets = self.targets()
        (answer,) = targets[0].call("create_topics", 7, topics=[creatable(name)])["topics"]
        assert answer["error_code"] == 0
        self.until(lambda: all(target.has_logs(name, 1) for target in targets))
        return name

    # Time.

    def run(self, work: Coroutine[Any, Any, T], of: Host | None = None) -> T:
        """Run a coroutine to completion in the process of a host, by default that of the test's clients."""
        process = self.client if of is None else of.process
        assert process is not None
        task = process.start(work)
        task.add_done_callback(lambda _: self.loop.stop())
        self.loop.run(self.loop.time() + WITHIN)
        if not task.done():
            raise TimeoutError(f"{task.get_coro()} takes longer than {WITHIN:g} simulated seconds")
        found: T = task.result()
        return found

    def until(self, is_so: Callable[[], object], within: float = WITHIN) -> None:
        """Let time pass until a condition holds. Raises TimeoutError.

        It checks less and less often, because a check costs more than letting time pass.
        """
        began = self.loop.time()
        while not is_so():
            elapsed = self.loop.time() - began
            if elapsed >= within:
                raise TimeoutError(f"it is not so after {within:g} simulated seconds")
            self.loop.run(self.loop.time() + max(STEP, elapsed / 50))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run(self.loop.time() + seconds)

    # Faults.

    def kill(self) -> None:
        """Kill everything at the same time, and restart it."""
        hosts = [self.control, *self.agents]
        for host in hosts:
            host.kill(back_after=0.1)
        self.advance(0.1)
        self.until(lambda: all(agent.is_running for agent in self.agents))

    def end_leases(self, *kept: StagedAgent) -> None:
        """Expire the leases of all agents except `kept` at the same time. The agents learn of it later."""
        # A lease lasts from the first tick that sees it.
        self.run(self._tick(), self.control)
        ended = {*self.control.state().leases} - {
            each.running.context.lease.lease_id for each in kept
        }
        self.control.suspend(LEASE_DURATION_MS + 1000)
        for host in kept:
            self.run(host.running.context.lease.renew(), host)
        self.run(self._tick(), self.control)
        assert ended <= {*self.control.state().ended_leases}

    async def _tick(self) -> None:
        assert self.control.runtime is not None
        self.control.runtime.tick()

    # Looking.

    def read(self, topic: str, isolation: int = COMMITTED, partition: int = 0) -> Read:
        """Return everything in a partition. All agents must agree."""
        first, *others = [_read(each, topic, isolation, partition) for each in self.targets()]
        assert all(each == first for each in others)
        return first

    @property
    def segments(self) -> int:
        """Return the number of segments in the store, committed or not."""
        assert self.control.disk.cluster_id is not None
        prefix = segments_prefix(self.control.disk.cluster_id)
        return sum(1 for _ in self.around.bucket.objects.list(prefix))

    def end(self) -> None:
        """End everything. Raises AssertionError if a task failed."""
        self.loop.end()
        assert self.loop.unhandled == []


class StagedAgent(AgentHost):
    """The machine of an agent."""

    def __init__(self, stage: Stage, number: int) -> None:
        super().__init__(stage.around, number)
        self._stage = stage
        self.parts = dataclasses.replace(
            stage.parts,
            agent=AgentSettings(listeners=(Listener(host=self.name, port=KAFKA_PORT),)),
            housekeeping=stage.parts.housekeeping if number == 1 else None,
        )

    @property
    def running(self) -> RunningAgent:
        """The agent, which must be running."""
        assert self.agent is not None
        return self.agent

    def target(self) -> StagedTarget:
        """Return a new raw client of this agent."""
        return StagedTarget(self._stage, self)

    @property
    def is_running(self) -> bool:
        """Return whether it serves clients."""
        return self.process is not None and self.process.is_alive and self.agent is not None

    def _end(self) -> None:
        super()._end()
        self.agent = None

    def _open_store(self, process: Process) -> ObjectStore:
        return self._stage.store


# Clients.


@dataclass(frozen=True, slots=True)
class Read:
    """The records of a partition, by offset."""

    records: list[tuple[int, bytes]]

    @property
    def values(self) -> list[bytes]:
        return [value for _, value in self.records]

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.records]


def _read(target: StagedTarget, topic: str, isolation: int, partition: int) -> Read:
    end = target.list_offset(topic, -1, isolation=isolation, index=partition)["offset"]
    position = target.list_offset(topic, -2, index=partition)["offset"]
    records: list[tuple[int, bytes]] = []
    while position < end:
        row = target.fetch(topic, position, isolation=isolation, index=partition, min_bytes=1)
        assert row["error_code"] == 0
        before = position
        for found in read_batches(row["records"]):
            if not found.header.is_control:
                records += (
                    (record.offset, record.value or b"")
                    for record in found.records()
                    if record.offset >= position
                )
            position = found.header.next_offset
        assert position > before
    return Read(records)


class StagedTarget(Target):
    """A raw client of one agent. While it waits for an answer, simulated time passes."""

    def __init__(
        self, stage: Stage, agent: StagedAgent, connection: Connection | None = None
    ) -> None:
        self._stage = stage
        self._agent = agent
        self.bootstrap = f"{agent.name}:{KAFKA_PORT}"
        self.advance = lambda milliseconds: stage.advance(milliseconds / 1000)
        self.raise_epoch = None
        self.log = None
        self.topic_ids = {}
        self.connection = connection or self.connect()

    def connect(self, timeout: float = WITHIN) -> Connection:
        del timeout
        return StagedConnection(self._stage, self._agent.name)

    def now(self) -> float:
        return self._stage.loop.time()

    def sleep(self, seconds: float) -> None:
        self._stage.advance(seconds)

    def name(self, stem: str = "p") -> str:
        return f"{stem}-{next(self._stage.names)}"

    def later(self, ask: Callable[[Target], T]) -> Later[T]:
        """Send the only request of `ask` without waiting. Send nothing else here until it is answered."""
        return Later(_Patient(self._stage, self._agent, self.connection), ask)


class _Sent(Exception):
    """A request was sent, and its answer follows later."""


class _Patient(StagedTarget):
    """Its first call ends when the request has been sent, and its second call waits for the answer."""

    is_asked = False

    def call(self, api: str, version: int, /, **fields: Any) -> dict[str, Any]:
        if not self.is_asked:
            self.is_asked = True
            self.connection.send(api, version, fields)
            raise _Sent
        return self.connection.receive(api, version)


class Later(Generic[T]):
    """A request that was sent to an agent."""

    def __init__(self, target: _Patient, ask: Callable[[Target], T]) -> None:
        self._target = target
        self._ask = ask
        try:
            ask(target)
        except _Sent:
            return
        raise AssertionError("nothing was asked")

    @property
    def is_done(self) -> bool:
        """Return whether the answer has arrived."""
        connection = self._target.connection
        assert isinstance(connection, StagedConnection)
        return connection.has_frame

    def result(self) -> T:
        """Wait for the answer."""
        return self._ask(self._target)


class StagedConnection(Connection):
    """A simulated connection from the test's process."""

    def __init__(self, stage: Stage, host: str) -> None:
        self._stage = stage
        self._received = b""
        self._is_open = True
        self.correlation_id = 0
        self.log = None
        self._end = stage.run(self._connect(host))

    async def _connect(self, host: str) -> End:
        end = await self._stage.around.network.connect(host, KAFKA_PORT)
        end.open(self._receive, self._broken)
        return end

    def close(self) -> None:
        self._end.reset()

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        self._end.send(data)

    def receive_frame(self) -> bytes:
        self._stage.until(lambda: self.has_frame or not self._is_open)
        if not self.has_frame:
            raise ClosedError("the agent closed the connection")
        end = 4 + self._size
        frame, self._received = self._received[4:end], self._received[end:]
        return frame

    @property
    def has_frame(self) -> bool:
        """Return whether an answer has arrived."""
        return len(self._received) >= 4 and len(self._received) >= 4 + self._size

    @property
    def _size(self) -> int:
        size: int = struct.unpack_from(">i", self._received)[0]
        return size

    def _receive(self, data: bytes) -> None:
        self._received += data

    def _broken(self, error: Exception | None) -> None:
        del error
        self._is_open = False


class Outbox:
    """Values that an idempotent client delivers, with librdkafka's retries and changes of agents."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage = stage
        self._place = (topic, 0)
        self._history = History(stage.loop.time)
        bootstrap = [(agent.name, KAFKA_PORT) for agent in stage.agents]
        client = Client(stage.around.network, bootstrap, stage.around.randomness("outbox"))
        self._who = IdempotentProducer("outbox", client, self._history, client.random)
        self._last = stage.client.start(self._who.init())

    def send(self, *values: bytes) -> None:
        """Send each value in a separate request, with several requests in flight."""
        self._last = self._stage.client.start(self._deliver(self._last, values))

    async def _deliver(self, before: asyncio.Task[None], values: Sequence[bytes]) -> None:
        await before
        await self._who.deliver(self._place, [[value] for value in values])

    def flush(self) -> list[int]:
        """Return all offsets, once everything has been delivered."""

        async def wait() -> None:
            await self._last

        self._stage.run(wait())
        assert self._history.violations == []
        return [offset for _, offset, _ in self._history.acknowledged]


# What can be held or lost.


class CommitLink:
    """A link in front of an agent's client, which carries the commits of its flushes.

    First, `lose_commands` commits are lost, then the replies to `lose_replies` commits. `is_cut` loses all commits.
    """

    def __init__(self, stage: Stage, host: StagedAgent) -> None:
        self.host = host
        self.lose_commands = 0
        self.lose_replies = 0
        self.is_cut = False
        #: How many commits were tried.
        self.tries = 0
        self._awaited = 0
        self._stage = stage
        flusher: Any = host.running.context.produce.flusher
        self._inner = flusher._control
        flusher._control = self

    @property
    def journal_position(self) -> int:
        """The position of the agent's client."""
        position: int = self._inner.journal_position
        return position

    @property
    def cluster(self) -> ClusterView:
        """The view of the agent's client."""
        view: ClusterView = self._inner.cluster
        return view

    def wait_for_try(self) -> None:
        """Wait until a commit is attempted. Returns immediately if no call has waited for an earlier one."""
        self._awaited += 1
        self._stage.until(lambda: self.tries >= self._awaited)

    def forget_tries(self) -> None:
        """Make `wait_for_try` wait for an attempt made from now on."""
        self._awaited = self.tries

    async def call(self, command: Command) -> Reply:
        """Pass a command on, or raise ControlPlaneUnavailable if it or its reply is lost."""
        self.tries += 1
        if self.is_cut or self.lose_commands:
            self.lose_commands = max(0, self.lose_commands - 1)
            raise ControlPlaneUnavailable("the command was lost, as told")
        reply: Reply = await self._inner.call(command)
        if self.lose_replies:
            self.lose_replies -= 1
            raise ControlPlaneUnavailable("the reply was lost, as told")
        return reply


class Delayed:
    """Delays everything that the control plane sends to an agent, until `release`."""

    def __init__(self, stage: Stage, host: StagedAgent) -> None:
        self._stage = stage
        self._way = (stage.control.name, host.name)
        self._messages = stage.around.network.hold(*self._way)

    def wait_for_reply(self) -> None:
        """Wait until the control plane has sent a reply."""
        self._stage.until(lambda: any(message.replies for _, message, _ in self._messages))

    def release(self) -> None:
        """Deliver the delayed messages in order, and delay nothing from then on."""
        self._stage.around.network.release(*self._way)


class StagedHold(Hold):
    """Holds calls to the store, from one agent or from all, without a thread."""

    def __init__(
        self, stage: Stage, operation: Operation, prefix: str, of: StagedAgent | None
    ) -> None:
        super().__init__(operation, prefix)
        self._stage = stage
        self._of = of
        self._held: list[Held] = []

    def wait_until_reached(self, timeout_s: float = WITHIN) -> None:
        self._stage.until(self.is_reached, timeout_s)

    def is_reached(self) -> bool:
        return bool(self._held)

    def pass_through(self) -> None:
        is_meant = self._of is None or self._stage.loop.current is self._of.process
        if is_meant and not self.is_released():
            self._held.append(Held())
            raise self._held[-1]

    def release(self) -> None:
        super().release()
        for held in self._held:
            held.released()


class StagedStore(FaultyStore):
    """The store that all agents use, whose calls can be held and made to fail."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(SimulatedStore(stage.around.bucket, stage.loop.world))
        self._stage = stage

    def hold(
        self, operation: Operation, prefix: str = "", of: StagedAgent | None = None
    ) -> StagedHold:
        hold = StagedHold(self._stage, operation, prefix, of)
        self._holds = [*(other for other in self._holds if not other.is_released()), hold]
        return hold


def staged(agents: int = 2, parts: AgentParts = PARTS) -> Iterator[Stage]:
    """Yield a stage, which is ended after the test. For use in a fixture."""
    stage = Stage(agents, parts)
    try:
        yield stage
    finally:
        stage.end()
