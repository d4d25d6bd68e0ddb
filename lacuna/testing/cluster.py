"""An embedded cluster in a separate thread, for code that is not asynchronous."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import uvloop

from lacuna.agent.eager import start
from lacuna.controlplane.client import confirm
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.logstore.objects import ObjectStore, folder_url
from lacuna.operating.agents import AgentParts
from lacuna.operating.embedded import ClusterSettings, EmbeddedCluster
from lacuna.operating.explained import Explanation, explain_partition
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.moto import CREDENTIALS, MotoServer
from lacuna.operating.stores import open_checked
from lacuna.testing.clock import AdjustableClock
from lacuna.testing.ports import lasting_ports

T = TypeVar("T")

CALL_SECONDS = 60.0
LEASE_SECONDS = 3.0


class Cluster:
    """A cluster as a context manager. All methods may be called from any thread.

    If `data` is None, a temporary folder is used and deleted at the end. Ports stay the same across `kill` and
    `restart`.

    Records are stored in a directory under `data` unless one of these is given: `moto`, for an S3 server that runs from
    the first start to the end of the `with` block; `store`, the URL of an object store; or `open_store`, a function
    that opens a store on each start. The journal is also under `data`, unless `journal` is the URL of a PostgreSQL
    database, or "bucket", which requires `moto` or a bucket in `store`. With `moto`, "bucket" adds moto's credentials
    to the environment if it contains none.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        agents: int = 1,
        moto: bool = False,
        store: str = "",
        open_store: Callable[[], ObjectStore] | None = None,
        parts: AgentParts | None = None,
        journal: str = "",
    ) -> None:
        if moto + bool(store) + (open_store is not None) > 1:
            raise ValueError("moto, store and open_store are mutually exclusive: use only one")
        self._is_temporary = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="lacuna-"))
        self._agents = agents
        self._open_store = partial(open_checked, store) if store else open_store
        self._store_url = store
        self._moto = MotoServer() if moto else None
        self._parts = parts or AgentParts()
        self._journal = journal
        self._ports = lasting_ports(agents)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._embedded: EmbeddedCluster | None = None
        self._clock = AdjustableClock()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.stop()
        finally:
            if self._moto is not None and self._moto.endpoint:
                self._moto.__exit__()
            if self._is_temporary:
                shutil.rmtree(self.data, ignore_errors=True)

    @property
    def embedded(self) -> EmbeddedCluster:
        """The embedded cluster. Call its coroutines through `run`, since its event loop runs in another thread.

        Raises RuntimeError if the cluster is not running.
        """
        if self._embedded is None:
            raise RuntimeError("the cluster is not running: call start() first")
        return self._embedded

    @property
    def store_url(self) -> str:
        """The URL of the object store, for jobs that read the bucket. Must not be used with `open_store`."""
        if self._moto is not None:
            return self._moto.url
        if self._store_url:
            return self._store_url
        return folder_url(self.data / "objects")

    @property
    def journal_options(self) -> SharedJournalOptions:
        """The options for a journal in a database or in the bucket. After `kill`, `start` waits for its lease to
        expire.
        """
        return SharedJournalOptions(self._journal, self.store_url, LEASE_SECONDS)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every agent, separated by commas."""
        return self.embedded.bootstraps

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's event loop and return its result, waiting up to 60 seconds.

        Raises any error that the coroutine raises, TimeoutError, or RuntimeError if the cluster is not running.
        """
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("the cluster is not running: call start() first")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_SECONDS)

    def start(self) -> None:
        """Start the cluster with its data folder, unless it is already running."""
        if self._embedded is not None:
            return
        if self._moto is not None and not self._moto.endpoint:
            self._open_store = self._moto.__enter__().open_store
            if self._journal:
                for name, value in CREDENTIALS.items():
                    os.environ.setdefault(name, value)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="lacuna-cluster", daemon=True
        )
        self._thread.start()
        settings = ClusterSettings(
            data=self.data,
            agents=self._agents,
            ports=tuple(self._ports),
            open_store=self._open_store,
            store_url=self.store_url
            if not self._open_store or self._moto or self._store_url
            else "",
            parts=self._parts,
            journal=self.journal_options if self._journal else None,
        )
        embedded = EmbeddedCluster(settings, self._clock)
        try:
            self.run(embedded.start())
        except BaseException:
            self._end_loop()
            raise
        self._embedded = embedded

    def stop(self) -> None:
        """Stop the cluster cleanly, if it is running."""
        if self._embedded is not None:
            self._end(self._embedded.stop())

    def kill(self) -> None:
        """End the cluster abruptly, as if its process had crashed.

        Data that has not reached the disk is lost, and client connections break. To kill a real process, use
        ProcessCluster.
        """
        self._end(self.embedded.kill())

    def restart(self) -> None:
        """Stop the cluster cleanly if it is running, and start it with the same data and ports."""
        self.stop()
        self.start()

    def advance(self, milliseconds: int) -> None:
        """Move the cluster's time forward, and expire everything that is overdue: transactions, group sessions, old
        records.

        Agents keep their leases. When this call returns, every agent knows what has expired.
        """
        self.run(self._advance(milliseconds))

    async def _advance(self, milliseconds: int) -> None:
        # Retention begins with the first tick, which may not have happened yet in a new cluster.
        self.embedded.running.runtime.tick()
        self._clock.advance(milliseconds)
        self.embedded.running.runtime.expect_jump(milliseconds)
        # Agents renew their leases before the tick that ends overdue leases. `start` sends the renewals
        # immediately, because the control plane's own tick may be next in the loop.
        agents = self.embedded.agents
        renewals = [start(agent.context.lease.renew(), "renewal") for agent in agents]
        await asyncio.gather(*filter(None, renewals))
        self._clock.wake()
        self.embedded.running.runtime.tick()
        # Once this call returns, every agent knows what the tick has ended (S2).
        await confirm(self.embedded.control)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic and return its name. Raises ValueError with the reason if the cluster rejects it."""
        topic = CreateTopic(name=name, partition_count=partitions, configs=dict(configs or {}))
        command = Command(create_topics=CreateTopics(topics=[topic]))
        (result,) = self.run(self.embedded.control.call(command)).topics_created.topics
        if result.error_code:
            raise ValueError(f"topic {name}: {result.error_message or result.error_code}")
        return name

    def explain(
        self, topic: str, partition: int, first: int | None = None, end: int | None = None
    ) -> Explanation:
        """Explain which offsets from `first` to `end` (exclusive) a read_committed consumer receives, and why.

        Raises UserError.
        """
        control = self.embedded.control
        return self.run(explain_partition(control, topic, partition, first, end))

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        try:
            self.run(ending)
        finally:
            self._embedded = None
            self._end_loop()

    def _end_loop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self.run(_cancel_the_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()
        self._loop = self._thread = None


async def _cancel_the_rest() -> None:
    """Cancel the tasks that a crash left behind, so that the loop can be closed."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
