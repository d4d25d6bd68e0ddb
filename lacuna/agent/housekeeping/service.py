"""The tasks that run merging and collection at intervals."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Self

from lacuna.agent.context import AgentContext
from lacuna.agent.housekeeping.collecting import SEGMENTS_A_PLAN, Collector
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.agent.housekeeping.metrics import HousekeepingMetrics
from lacuna.agent.lease import NoLeaseError
from lacuna.base.setting import check_settings, setting
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.logstore.objects import ObjectStoreError

log = logging.getLogger("lacuna.housekeeping")

_MERGING: Final = "merging"
_COLLECTION: Final = "collection"
_MOST_OF_FAILURE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """The intervals of merging and collection, and the settings of a merge. Raises SettingsError."""

    merge_interval_ms: int = setting(
        "merge.interval.ms",
        5_000,
        "How often the agent looks for small extents to merge.",
        least=10,
    )
    collect_interval_ms: int = setting(
        "collect.interval.ms", 15_000, "How often the agent looks for objects to delete.", least=10
    )
    merge: MergeSettings = field(default_factory=MergeSettings)

    def __post_init__(self) -> None:
        check_settings(self)


class Housekeeping:
    """The agent's merging and collection tasks. Failures are logged and retried."""

    def __init__(self, context: AgentContext, settings: HousekeepingSettings) -> None:
        self._settings = settings
        self._clock = context.clock
        self.metrics = HousekeepingMetrics()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        store, control, lease = context.store, context.control, context.lease
        self.merger = Merger(control, store, lease, self._executor, settings.merge, context.holding)
        self.collector = Collector(control, store, lease, self._executor)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> Self:
        """Start the tasks in the running event loop; return self."""
        loop = asyncio.get_running_loop()
        jobs = (
            (self.merge, self._settings.merge_interval_ms, _MERGING),
            (self.collect, self._settings.collect_interval_ms, _COLLECTION),
        )
        self._tasks = [loop.create_task(self._repeat(*job), name=job[2]) for job in jobs]
        return self

    async def stop(self) -> None:
        """Cancel the tasks, and wait for the current call to the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def merge(self) -> None:
        """Merge until a plan is not worthwhile, or until no partition of a plan was merged."""
        metrics = self.metrics
        while report := await self.merger.run_once():
            if report.partitions:
                log.info("merged: %s", report)
                metrics.merges += 1
            if report.failed:
                metrics.partitions_failed += report.failed
                self._note_failure(_MERGING, report.last_failure)
            metrics.partitions_merged += report.partitions - report.refused
            metrics.partitions_refused += report.refused
            metrics.extents_before += report.extents_before
            metrics.extents_after += report.extents_after
            metrics.bytes_read += report.bytes_read
            metrics.bytes_written += report.bytes_written
            if report.refused == report.partitions:
                return

    async def collect(self) -> None:
        """Collect until a plan is not full, so that deletion keeps pace with writing."""
        is_full = True
        while is_full:
            report = await self.collector.run_once()
            is_full = report.planned >= SEGMENTS_A_PLAN and report.replaced > 0
            if report.failed:
                self.metrics.deletions_failed += report.failed
                self._note_failure(_COLLECTION, report.last_failure)
            self.metrics.objects_deleted += report.replaced
            self.metrics.uncommitted_deleted += report.uncommitted
            if report.replaced or report.uncommitted:
                log.info("deleted: %s", report)

    async def _repeat(
        self, job: Callable[[], Awaitable[None]], interval_ms: int, name: str
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await job()
            except (
                ControlPlaneUnavailable,
                CommandRefused,
                NoLeaseError,
                ObjectStoreError,
            ) as error:
                log.warning("%s failed and will be tried again: %s", name, error)
                self._failed(name, error)
            except Exception as error:
                # If the task ended here, this would go unnoticed until the bucket is full.
                log.exception(
                    "unexpected error in %s, which will be tried again; please report it", name
                )
                self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        metrics = self.metrics
        if name == _MERGING:
            metrics.merges_failed += 1
        else:
            metrics.collections_failed += 1
        self._note_failure(name, str(error) or type(error).__name__)

    def _note_failure(self, name: str, what: str) -> None:
        self.metrics.last_failure = f"{name}: {what}"[:_MOST_OF_FAILURE]
        self.metrics.last_failure_ms = self._clock.now_ms()

    def set_aside(self) -> dict[str, int]:
        """Return the number of failed items that each task leaves alone for a while."""
        collector = self.collector
        left = len(collector.segments_set_aside) + len(collector.leases_set_aside)
        return {_MERGING: len(self.merger.set_aside), _COLLECTION: left}
