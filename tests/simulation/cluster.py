"""Machines of a simulated cluster with their supervisors and shared services.

A host restarts its process after it dies. A machine's storage (a journal's disk, a database) outlives the process. An
agent's machine stores nothing.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lacuna.agent.fetch.planner import Planner, Plans
from lacuna.agent.fetch.sessions import Opened
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.fetch.shared import SharedMetrics
from lacuna.agent.housekeeping import CleanSettings, HousekeepingSettings
from lacuna.agent.housekeeping.merging import MergeSettings
from lacuna.agent.peers import Named
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.security.listeners import Listener
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.client.protocol import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.journal.journal import JournalError
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.logstore.objects.store import ObjectStore, ObjectStoreError
from lacuna.logstore.segments import ForeignStoreError
from lacuna.operating.agents import AgentParts, RunningAgent, start_agent
from lacuna.operating.stores import claim
from lacuna.wire.messages.fetch import FetchRequest
from tests.messages import REQUESTS, make
from tests.simulation.kafka import Client, Unanswered
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.sessions import new_client
from tests.simulation.store import Bucket, SimulatedStore

T = TypeVar("T")

KAFKA_PORT = 9092


class NeverInline:
    """A `Pace` that leaves blocking work to threads."""

    def allows(self) -> bool:
        """Return False."""
        return False

    def timed(self, job: Callable[[], T]) -> T:
        """Do the work."""
        return job()


@dataclass(slots=True)
class Surroundings:
    """Everything that all hosts share: the loop, the network, the bucket, and randomness by name."""

    seed: int
    #: The addresses of all control planes.
    controls: Sequence[str] = ()
    loop: SimulatedLoop = field(init=False)
    network: Network = field(init=False)
    bucket: Bucket = field(init=False)
    #: What the agents have read for one another.
    shared: list[SharedMetrics] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = SimulatedLoop(self.randomness("loop"))  # type: ignore[abstract]
        self.network = Network(self.loop, self.randomness("network"))
        self.bucket = Bucket(self.loop, self.randomness("bucket"))

    def tell(self, what: str) -> None:
        """Add a line to the trace, if there is one."""
        if self.network.trace is not None:
            self.network.trace.tell(what)

    def randomness(self, name: str) -> random.Random:
        """Return a separate source, so that one part's draws do not affect another's."""
        return random.Random(f"{self.seed}/{name}")


class Host:
    """A machine that runs one process at a time."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self.around = around
        self.name = name
        self.starts = 0
        self.process: Process | None = None
        self.random = around.randomness(name)
        self.clock_ahead_ms = 0
        self.asleep_ms = 0
        #: How fast its clock counts the time that passes.
        self.pace = 1.0
        #: Why its process ended last, as it would say on standard error.
        self.said = ""
        #: How often a client got something done; reset by who waits for it.
        self.progress = 0
        self._is_held = False
        self._is_retired = False

    def new_id(self) -> bytes:
        """Return 16 random bytes."""
        return self.random.randbytes(16)

    def start(self) -> None:
        """Start its process if none is running."""
        if (
            self._is_held
            or self._is_retired
            or (self.process is not None and self.process.is_alive)
        ):
            return
        self.starts += 1
        process = self.process = self.around.loop.process(self.name)
        process.clock_ahead_ms = self.clock_ahead_ms
        process.asleep_ms = self.asleep_ms
        process.pace = self.pace
        process.on_killed.append(lambda: self.around.network.close_all(process))
        process.start(self._run(process), self.name)
        self.around.tell(f"{self.name} starts")

    def retire(self) -> None:
        """End the process for good."""
        self._is_retired = True
        self._end()

    def jump_clock(self, by_ms: int) -> None:
        """Set the machine's clock."""
        self.clock_ahead_ms += by_ms
        if self.process is not None:
            self.process.clock_ahead_ms = self.clock_ahead_ms

    def suspend(self, for_ms: int) -> None:
        """Let time pass while nothing runs on the machine, as when a laptop sleeps."""
        self.asleep_ms += for_ms
        if self.process is not None:
            self.process.asleep_ms = self.asleep_ms

    def kill(self, back_after: float) -> None:
        """Kill the process, and start another later."""
        self._end()
        self._plan_start(back_after)

    def power_off(self, back_after: float) -> None:
        """Cut the machine's power, without notice to its peers. Unsynced data is lost."""
        if self.process is not None and self.process.is_alive:
            self.around.network.power_off(self.process)
        self._end()
        self._lose_power()
        self._plan_start(back_after)

    def pause(self, seconds: float) -> None:
        """Stop the process for a while, as SIGSTOP does."""
        process = self.process
        if process is None or process.is_paused:
            return
        process.pause()
        self.around.loop.call_in(self.around.loop.world, seconds, process.go_on)

    def stop(self, back_after: float) -> None:
        """End the process as SIGTERM does."""
        process = self.process
        if process is None or not process.is_alive:
            return
        self._is_held = True
        process.start(self._stop_then_end(process, back_after))

    async def _stop_then_end(self, process: Process, back_after: float) -> None:
        try:
            async with asyncio.timeout(10.0):
                await self._stop()
        except TimeoutError:
            pass
        finally:
            self._is_held = False
        self.around.loop.call_in(self.around.loop.world, 0.0, self._ended, process, back_after)

    def _ended(self, process: Process, back_after: float) -> None:
        if process is self.process:
            self.around.tell(f"{self.name} has ended: {self.said}")
            self.kill(back_after)

    def _end(self) -> None:
        self._is_held = False
        if self.process is not None:
            self.process.kill()

    def _plan_start(self, back_after: float) -> None:
        self.around.loop.call_in(self.around.loop.world, back_after, self.start)

    async def _run(self, process: Process) -> None:
        """Run the process. When it ends, the supervisor starts another."""
        try:
            await self._serve(process)
        except (
            ControlPlaneUnavailable,
            CommandRefused,
            ForeignStoreError,  # a bit of the marker was wrong
            ObjectStoreError,
            JournalError,
            OSError,
        ) as error:
            self.said = str(error)
        except Exception:
            self.around.loop.unhandled.append((self.name, traceback.format_exc()))
        self.around.loop.call_in(
            self.around.loop.world, 0.0, self._ended, process, 0.5 + self.random.random()
        )

    async def _serve(self, process: Process) -> None:
        raise NotImplementedError

    async def _stop(self) -> None:
        raise NotImplementedError

    def _lose_power(self) -> None:
        """Lose the machine's unsynced data."""


def _note_reading_on(planner: Planner, process: Process) -> None:
    """Notify the process when its agent continues reading, because the bounds in its answers are then as old as its
    views.
    """
    plan = planner.plan

    async def noted(request: FetchRequest, opened: Opened) -> Plans:
        plans = await plan(request, opened)
        if plans.is_reading_on:
            process.read_on_at = process.loop.time()
        return plans

    planner.plan = noted  # type: ignore[method-assign]


class AgentHost(Host):
    """The machine of an agent."""

    def __init__(self, around: Surroundings, number: int) -> None:
        super().__init__(around, f"agent-{number}")
        self.agent: RunningAgent | None = None
        # If the bucket has prices, flushes of one agent wait for up to 0, 20, 125 and 250 ms.
        budget, burst = self.random.choice(((1 << 30, 8), (650, 8), (105, 8), (53, 1)))
        self.parts = AgentParts(
            agent=AgentSettings(
                listeners=(Listener(host=self.name, port=KAFKA_PORT),), num_partitions=2
            ),
            produce=ProduceSettings(
                requests_budget=budget,
                flush_burst=burst,
                flush_bytes=self.random.choice((300, 8 << 20)),
                hot_bytes=around.randomness(f"hot {number}").choice((0, 400, 65_536)),
                hot_copy_interval_ms=around.randomness(f"hot copies {number}").choice(
                    (1_000, 3_600_000)
                ),
            ),
            fetch=self._fetch_settings(),
            housekeeping=HousekeepingSettings(
                merge_interval_ms=1_000,
                clean_interval_ms=1_500,
                collect_interval_ms=2_000,
                merge=MergeSettings(min_extents=24, min_age_ms=1_000),
                clean=CleanSettings(memory_bytes=1 << 20, min_bytes=0),
            ),
        )

    def _fetch_settings(self) -> FetchSettings:
        """Return the settings, equal for all agents of a cluster. One agent may share nothing, as while the setting is
        changed.
        """
        common = self.around.randomness("zone reads")
        zone_reads = common.choice(("off", "on", "on"))
        if self.random.random() < 0.1:
            zone_reads = "off"
        return FetchSettings(
            cache_bytes=self.random.choice((4096, 1 << 20)),
            zone_reads=zone_reads,
            chunk_bytes=common.choice((200, 1000, 1 << 20)),
        )

    async def _serve(self, process: Process) -> None:
        self.agent = None
        around = self.around
        control = new_client(around, self.random.random)
        await control.cluster.ready()
        store = self._open_store(process)
        await claim(store, control)
        self.agent = await start_agent(
            control=control,
            store=store,
            parts=self.parts,
            clock=process,
            randomness=random.Random(self.random.random()),
            pace=NeverInline(),
            ask_peer=self._ask_peer,
            connect_peer=self._connect_peer,
        )
        _note_reading_on(self.agent.context.fetch._planner, process)
        if self.agent.context.fetch.shared is not None:
            around.shared.append(self.agent.context.fetch.shared.metrics)
        await around.loop.create_future()

    async def _connect_peer(self, agent: Agent) -> asyncio.Future[None]:
        end = await self.around.network.connect(agent.host, agent.port)
        broken: asyncio.Future[None] = self.around.loop.create_future()

        def lost(_: Exception | None) -> None:
            if not broken.done():
                broken.set_result(None)

        end.open(lambda _: None, lost)
        broken.add_done_callback(lambda _: end.reset())
        return broken

    async def _ask_peer(self, agent: Agent) -> Named | None:
        address = (agent.host, agent.port)
        client = Client(self.around.network, [address], self.random, request_timeout=1.0)
        try:
            answer = await client.ask(address, 60, 0, make(REQUESTS[60].body, 0))
        except Unanswered:
            return None
        finally:
            client.disconnect()
        return Named(answer.cluster_id, [broker.broker_id for broker in answer.brokers])

    def _open_store(self, process: Process) -> ObjectStore:
        return SimulatedStore(self.around.bucket, process)

    def _lose_power(self) -> None:
        self.around.bucket.lose_power(self.name)

    async def _stop(self) -> None:
        if self.agent is not None:
            await self.agent.stop()
            await self.agent.context.control.close()
