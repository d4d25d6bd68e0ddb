"""The tasks that run merging and collection from time to time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

from agent.context import AgentContext
from agent.housekeeping.collecting import SEGMENTS_A_PLAN, Collector
from agent.housekeeping.merging import Merger, MergeSettings
from agent.lease import NoLeaseError
from controlplane.client import CommandRefused, ControlPlaneUnavailable
from logstore.objects import ObjectStoreError
from logstore.segments import CorruptSegmentError

log = logging.getLogger("lacuna.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """How often, in seconds; merging goes on without a pause as long as there is something to merge."""

    merge_interval_seconds: float = 5.0
    collect_interval_seconds: float = 15.0
    merge: MergeSettings = field(default_factory=MergeSettings)


class Housekeeping:
    """Two tasks beside an agent. A failure of the store or the control plane is logged and tried again."""

    def __init__(self, context: AgentContext, settings: HousekeepingSettings) -> None:
        self._settings = settings
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        store, control, lease = context.store, context.control, context.lease
        self.merger = Merger(control, store, lease, self._executor, settings.merge)
        self.collector = Collector(control, store, lease, self._executor)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> Self:
        """Begins; in the running event loop."""
        loop = asyncio.get_running_loop()
        jobs = (
            (self.merge, self._settings.merge_interval_seconds, "merging"),
            (self.collect, self._settings.collect_interval_seconds, "collection"),
        )
        self._tasks = [loop.create_task(_repeat(*job), name=job[2]) for job in jobs]
        return self

    async def stop(self) -> None:
        """Ends after the call to the store that is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def merge(self) -> None:
        """Until nothing is worth it any more."""
        while report := await self.merger.run_once():
            log.info("merged: %s", report)
            if report.refused == report.partitions:
                return

    async def collect(self) -> None:
        """Until a plan was not full: objects must not come faster than they go."""
        is_full = True
        while is_full:
            report = await self.collector.run_once()
            is_full = report.replaced >= SEGMENTS_A_PLAN
            if report.replaced or report.uncommitted:
                log.info("collected: %s", report)


async def _repeat(job: Callable[[], Awaitable[None]], seconds: float, name: str) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await job()
        except CorruptSegmentError as error:
            log.error("%s stopped at a damaged object, which stays as it is: %s", name, error)
        except (ControlPlaneUnavailable, CommandRefused, NoLeaseError, ObjectStoreError) as error:
            log.warning("%s failed and is tried again: %s", name, error)
        except Exception:
            # Were it to end here, nobody would hear of it until the bucket is full.
            log.exception("our own mistake in %s, which is tried again", name)
