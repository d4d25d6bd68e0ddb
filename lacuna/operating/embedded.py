"""A whole cluster in one event loop: a control plane, agents and a store.

data/journal.db         the control plane's journal, unless it is in a database or in the bucket
data/objects/           the objects, unless another store is given
data/control.address    where `lacuna explain` and other agents reach the control plane
data/store.url          the store's URL, for jobs that are given the folder
"""

import asyncio
import logging
import os
import random
import re
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from lacuna.agent.asking import Whereabouts
from lacuna.base.data_folder import ADDRESS_NAME, STORE_NAME, leave
from lacuna.base.errors import UserError
from lacuna.base.pace import LoopLoad, MeasuredPace
from lacuna.controlplane import machine
from lacuna.controlplane.client import (
    ControlClient,
    ControlPlace,
    ControlPlaneUnavailable,
    InProcessClient,
    SessionClient,
    SessionLimits,
)
from lacuna.controlplane.clock import Clock, SystemClock
from lacuna.controlplane.journal.journal import SharedJournal
from lacuna.controlplane.journal.kinds.sqlite import JOURNAL_NAME
from lacuna.controlplane.local_stream import local_stream
from lacuna.controlplane.service import RunningControlPlane, ServiceSettings, serve
from lacuna.controlplane.shared_service import RunningNode, local_name, serve_shared
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.windows import ProducerSettings
from lacuna.logstore.objects import DirectoryStore, ObjectStore, folder_url
from lacuna.operating.agents import AgentParts, RunningAgent, start_agent
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.stores import claim

T = TypeVar("T")

_log = logging.getLogger("lacuna")

#: Linux limits the path of a socket to 107 bytes. The path of a data folder may be longer.
_MAX_SOCKET_PATH = 100
#: gRPC reads the path as part of a URL, so it does not accept characters that are special in URLs.
_PLAIN_PATH = re.compile(r"[\w/.,=+~@-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Settings of an embedded cluster.

    The folder `data` is created if missing. It contains the journal, unless `journal` is given, and the objects, unless
    `open_store` is given; `store_url` is that store's URL, if it has one. `ports` are for the first listener of each of
    the `agents`, in order; further agents take free ports.
    """

    data: Path
    ports: tuple[int, ...] = ()
    agents: int = 1
    open_store: Callable[[], ObjectStore] | None = None
    store_url: str = ""
    journal: SharedJournalOptions | None = None
    parts: AgentParts = field(default_factory=AgentParts)
    service: ServiceSettings = field(default_factory=ServiceSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    producers: ProducerSettings = field(default_factory=ProducerSettings)

    def parts_of(self, number: int) -> AgentParts:
        """Return the settings of agent `number`, counted from 0. Only the first agent does merges and collection."""
        first, *others = self.parts.agent.listeners
        if number > 0:
            first, *others = (replace(each, port=0) for each in (first, *others))
        if number < len(self.ports):
            first = replace(first, port=self.ports[number])
        agent = replace(self.parts.agent, listeners=(first, *others))
        parts = replace(self.parts, agent=agent)
        return parts if number == 0 else parts.without_housekeeping()


class EmbeddedCluster:
    """A cluster that runs in the caller's event loop. `start` and `stop` must be called in the same loop."""

    def __init__(self, settings: ClusterSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.agents: list[RunningAgent] = []
        self.store: ObjectStore
        self.control: ControlClient
        self.running: RunningControlPlane | RunningNode
        self._journal: SharedJournal | None = None
        self._stack = AsyncExitStack()

    @property
    def bootstrap(self) -> str:
        return self.agents[0].bootstrap

    @property
    def bootstraps(self) -> str:
        """The addresses of all agents (HOST:PORT), separated by commas."""
        return ",".join(agent.bootstrap for agent in self.agents)

    async def start(self) -> None:
        """Starts the cluster, after setting up the data folder if it is new.

        Raises UserError, JournalError, ForeignStoreError, ObjectStoreError, OSError.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        settings = self.settings
        make_folder(settings.data)
        load = LoopLoad()
        self.store = await asyncio.to_thread(self._open_store)
        self._stack.callback(self.store.close)
        await self._serve(load)
        self.control = await self.connect()
        await self._led(lambda: claim(self.store, self.control))
        # This process now owns the journal, so these files do not belong to another cluster running on this folder.
        if settings.store_url:
            leave(settings.data, STORE_NAME, settings.store_url)
        address = settings.data / ADDRESS_NAME
        leave(settings.data, ADDRESS_NAME, self.running.address)
        self._stack.callback(address.unlink, missing_ok=True)
        for number in range(settings.agents):
            agent = await self._start_agent(number, load)
            self._stack.push_async_callback(agent.stop)
            self.agents.append(agent)

    async def _start_agent(self, number: int, load: LoopLoad) -> RunningAgent:
        settings = self.settings
        control = await self.connect()
        return await self._led(
            lambda: start_agent(
                control=control,
                store=self.store,
                parts=settings.parts_of(number),
                clock=self.clock,
                randomness=random.SystemRandom(),
                pace=MeasuredPace(load),
                whereabouts=self._whereabouts(),
            )
        )

    def _whereabouts(self) -> Whereabouts:
        """Return where jobs find this cluster. A store without a URL is in this process or the data folder."""
        settings = self.settings
        url = settings.store_url
        if not url and settings.open_store is None:
            url = folder_url((settings.data / "objects").resolve())
        return Whereabouts(ControlPlace(self.running.address), url)

    async def _led(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a startup step if the lease of a shared journal is lost during the step."""
        while True:
            try:
                return await step()
            except ControlPlaneUnavailable:
                if not isinstance(self.running, RunningNode):
                    raise
                await self.running.leads(self._stands_by)

    def _stands_by(self, leader: str) -> None:
        assert self.settings.journal is not None
        _log.warning(
            "another control plane, at %s, is the leader of this journal: waiting until it stops, or has been "
            "silent for %g s",
            leader,
            self.settings.journal.lease,
        )

    async def _serve(self, load: LoopLoad) -> None:
        """Start the control plane, and wait until it is the leader."""
        settings = self.settings
        address = socket_address(settings.data)
        prepare = state_settings(settings.groups, settings.producers)
        if settings.journal is None:
            self.running = await serve(
                address,
                str(settings.data / JOURNAL_NAME),
                settings.service,
                clock=self.clock,
                pace=MeasuredPace(load),
                prepare=prepare,
                on_demand=True,
            )
            self._stack.push_async_callback(self.running.close)
            return
        make_journal = self._stack.enter_context(settings.journal.opened())

        def remembered(address: str) -> SharedJournal:
            self._journal = make_journal(address)
            return self._journal

        self.running = node = await serve_shared(
            address,
            remembered,
            settings.service,
            advertised=local_name("lacuna up"),
            clock=self.clock,
            prepare=prepare,
            on_demand=True,
        )
        self._stack.push_async_callback(node.close)
        await node.leads(self._stands_by)

    def _open_store(self) -> ObjectStore:
        objects = self.settings.data / "objects"
        store = (self.settings.open_store or partial(DirectoryStore, objects))()
        try:
            store.check()
        except BaseException:
            store.close()
            raise
        return store

    async def connect(self, max_partitions: int = 10_000) -> ControlClient:
        """Return another client of the control plane, with at most `max_partitions` views. `stop` closes it."""
        client: InProcessClient | SessionClient
        if isinstance(self.running, RunningNode):
            # The control plane may lose and regain leadership, just like a control plane in another process.
            node, bound = self.running.node, self.settings.service.max_outbox
            client = SessionClient(
                [self.running.address],
                lambda _: local_stream(node, bound),
                random.SystemRandom().random,
                SessionLimits(max_partitions=max_partitions),
            )
            client.start()
        else:
            client = InProcessClient(self.running.runtime, max_partitions=max_partitions)
        self._stack.push_async_callback(client.close)
        await self._led(client.cluster.ready)
        return client

    async def stop(self) -> None:
        """Stops cleanly: agents answer the requests received so far and release their leases."""
        await self._stack.aclose()

    async def kill(self) -> None:
        """Stops as in a crash: answers no requests, flushes nothing, and releases no leases."""
        for agent in self.agents:
            await agent.abort()
        if self._journal is not None:
            self._journal.abandon()
        await self.running.abort()
        self.store.close()


def state_settings(
    groups: GroupSettings, producers: ProducerSettings
) -> Callable[[machine.State], None]:
    """Return a function that applies these settings to a state machine."""

    def prepare(state: machine.State) -> None:
        state.groups.settings = groups
        state.windows.settings = producers

    return prepare


def make_folder(data: Path) -> None:
    """Creates a data folder if it is missing. Raises UserError if that fails or the folder is not writable."""
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the data folder {data} cannot be created ({error.strerror}): choose another with --data"
        ) from error
    if not os.access(data, os.W_OK | os.X_OK):
        raise UserError(f"the data folder {data} is not writable: choose another with --data")


def socket_address(data: Path) -> str:
    """Return the gRPC address (unix:PATH) for the control plane of a data folder.

    A path that gRPC cannot use, or that is too long, is replaced by one in the temporary folder.
    """
    path = str(data.resolve() / "control.sock")
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH or not _PLAIN_PATH.fullmatch(path):
        digest = sha256(os.fsencode(path)).hexdigest()[:16]
        path = os.path.join(tempfile.gettempdir(), f"lacuna-{digest}.sock")
    return f"unix:{path}"
