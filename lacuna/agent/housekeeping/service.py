"""The tasks that run merging, cleaning and collection at intervals, and the task that writes dead letters."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self

from lacuna.agent.context import AgentContext
from lacuna.agent.housekeeping.cleaning import Cleaner, CleanSettings
from lacuna.agent.housekeeping.collecting import SEGMENTS_A_PLAN, Collector
from lacuna.agent.housekeeping.dead_letters import Burial
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.agent.lease import NoLeaseError
from lacuna.base.setting import check_settings, setting
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.logstore.objects import ObjectStoreError
from lacuna.logstore.records.rewriting import KeyTable

log = logging.getLogger("lacuna.housekeeping")

_MERGING: Final = "merging"
_CLEANING: Final = "cleaning"
_COLLECTION: Final = "collection"
_BURIAL: Final = "writing dead letters"
#: How often an agent looks for dead letters without having been notified, and the minimum pause between two
#: unsuccessful attempts.
_BURIAL_SECONDS: Final = 5.0
_BURIAL_PAUSE_MS: Final = 200
_MOST_OF_FAILURE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """The intervals of merging, cleaning and collection, and their settings. Raises SettingsError."""

    merge_interval_ms: int = setting(
        "merge.interval.ms",
        5_000,
        "How often the agent looks for small extents to merge.",
        least=10,
    )
    collect_interval_ms: int = setting(
        "collect.interval.ms", 15_000, "How often the agent looks for objects to delete.", least=10
    )
    clean_interval_ms: int = setting(
        "clean.interval.ms",
        15_000,
        "How often the agent looks for partitions to compact by key.",
        least=10,
    )
    merge: MergeSettings = field(default_factory=MergeSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(slots=True, kw_only=True)
class HousekeepingMetrics:
    """Counters (sizes in bytes), and the text and time of the last failure. The text is "" if nothing has failed.

    `partitions_refused` counts partitions whose extents had changed since the plan was made, and `partitions_failed`
    those with an object that could not be read or merged. `deletions_failed` counts objects that could not be deleted,
    and leases with such objects.
    """

    merges: int = 0
    merges_failed: int = 0
    records_superseded: int = 0
    cleanings_failed: int = 0
    partitions_merged: int = 0
    partitions_refused: int = 0
    partitions_failed: int = 0
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    collections_failed: int = 0
    deletions_failed: int = 0
    objects_deleted: int = 0
    uncommitted_deleted: int = 0
    burials_failed: int = 0
    last_failure: str = ""
    last_failure_ms: int = 0


class Housekeeping:
    """The agent's merging, cleaning, collection and dead-letter tasks. Failures are logged, and the work is retried."""

    def __init__(self, context: AgentContext, settings: HousekeepingSettings) -> None:
        self._settings = settings
        self._clock = context.clock
        self.metrics = HousekeepingMetrics()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")
        store, control, lease = context.store, context.control, context.lease
        memory_bytes, randomness = settings.clean.memory_bytes, context.randomness

        def new_table() -> KeyTable:
            return KeyTable(memory_bytes, randomness.getrandbits(128).to_bytes(16))

        merge, holding = settings.merge, context.holding
        self.merger = Merger(control, store, lease, self._executor, merge, holding, new_table)
        self.cleaner = Cleaner(
            control, store, lease, self._executor, settings.clean, merge, new_table, holding
        )
        self.collector = Collector(control, store, lease, self._executor)
        self.burial = Burial(context, self._executor)
        self._dead_letters = context.shares.dead_letters
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> Self:
        """Start the tasks in the running event loop, and return self."""
        loop = asyncio.get_running_loop()
        jobs = (
            (self.merge, self._settings.merge_interval_ms, _MERGING),
            (self.clean, self._settings.clean_interval_ms, _CLEANING),
            (self.collect, self._settings.collect_interval_ms, _COLLECTION),
            (self.bury, _BURIAL_PAUSE_MS, _BURIAL),
        )
        self._tasks = [loop.create_task(self._repeat(*job), name=job[2]) for job in jobs]
        return self

    async def stop(self) -> None:
        """Cancel the tasks, and wait for the current call to the store to end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def merge(self) -> None:
        """Merge until nothing is worth merging, or until no partition in a plan could be merged."""
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
            metrics.records_superseded += report.superseded
            if report.refused == report.partitions:
                return

    async def clean(self) -> None:
        """Clean until no partition is worth a pass, or until a pass has left out a part of its partition."""
        while report := await self.cleaner.run_once():
            log.info("cleaned: %s", report)
            if report.failure:
                self._note_failure(_CLEANING, report.failure)
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

    async def bury(self) -> None:
        """Wait until there may be dead letters, and write letters until no more are planned."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._dead_letters.wait(), _BURIAL_SECONDS)
        self._dead_letters.clear()
        while await self.burial.run_once():
            pass

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
                # If the task ended at this point, no one would notice until the bucket was full.
                log.exception(
                    "unexpected error in %s, which will be tried again; please report it", name
                )
                self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        metrics = self.metrics
        if name == _MERGING:
            metrics.merges_failed += 1
        elif name == _CLEANING:
            metrics.cleanings_failed += 1
        elif name == _BURIAL:
            metrics.burials_failed += 1
        else:
            metrics.collections_failed += 1
        self._note_failure(name, str(error) or type(error).__name__)

    def _note_failure(self, name: str, what: str) -> None:
        self.metrics.last_failure = f"{name}: {what}"[:_MOST_OF_FAILURE]
        self.metrics.last_failure_ms = self._clock.now_ms()

    def set_aside(self) -> dict[str, int]:
        """Return how many failed items each task is currently leaving alone."""
        collector = self.collector
        left = len(collector.segments_set_aside) + len(collector.leases_set_aside)
        return {
            _MERGING: len(self.merger.set_aside),
            _CLEANING: len(self.cleaner.set_aside),
            _COLLECTION: left,
        }
