"""Collection: deletes objects that nothing refers to any more.

There are two kinds. Segments whose extents were all replaced or deleted go after a grace period, unless a pin holds
them. Segments that were written but never committed are found by listing the prefix of a lease that has ended. The
control plane says what to delete; it never names an object that it knows of, or one whose lease is alive.
"""

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from lacuna.agent.lease import AgentLease
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    ConfirmCollection,
    FilterUncommitted,
    PlanCollection,
    SegmentId,
)
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.segments import SegmentId as StoredSegmentId
from lacuna.logstore.segments import lease_prefix, parse_segment_key, segment_key
from lacuna.logstore.segments.paths import InvalidPathError

log = logging.getLogger("lacuna.housekeeping")

SEGMENTS_A_PLAN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """How many segments one collection deleted: replaced ones, and ones that were never committed."""

    replaced: int = 0
    uncommitted: int = 0

    def __str__(self) -> str:
        return f"{self.replaced} replaced and {self.uncommitted} uncommitted segments"


class Collector:
    """Deletes the objects that the control plane has planned to collect. `executor` runs the calls to the store."""

    def __init__(
        self, control: ControlClient, store: ObjectStore, lease: AgentLease, executor: Executor
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor

    async def run_once(self) -> CollectionReport:
        """Ask for one plan, carry it out and confirm it.

        Raises ControlPlaneUnavailable or ObjectStoreError; the plan is then not confirmed, and is given again."""
        request = PlanCollection(lease_id=self._lease.lease_id, max_segments=SEGMENTS_A_PLAN)
        plan = (await self._control.call(Command(plan_collection=request))).collection_plan
        if plan.error_code != ErrorCode.NONE or not (plan.segments or plan.swept_lease_ids):
            return CollectionReport()
        await self._delete(plan.segments)
        uncommitted = 0
        for lease_id in plan.swept_lease_ids:
            uncommitted += await self._sweep(lease_id)
        confirmation = ConfirmCollection(
            segments=plan.segments, swept_lease_ids=plan.swept_lease_ids
        )
        await self._control.call(Command(confirm_collection=confirmation))
        return CollectionReport(replaced=len(plan.segments), uncommitted=uncommitted)

    async def _sweep(self, lease_id: int) -> int:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._executor, self._list, lease_id)
        deleted = 0
        for start in range(0, len(found), SEGMENTS_A_PLAN):
            some = found[start : start + SEGMENTS_A_PLAN]
            request = Command(filter_uncommitted=FilterUncommitted(segments=some))
            unknown = (await self._control.call(request)).uncommitted_filtered.segments
            await self._delete(unknown)
            deleted += len(unknown)
        return deleted

    def _list(self, lease_id: int) -> list[SegmentId]:
        found = []
        for info in self._store.list(lease_prefix(self._lease.cluster_id, lease_id)):
            try:
                _, segment_id = parse_segment_key(info.key)
            except InvalidPathError:
                log.warning("%s is not a segment of Lacuna, so it is not deleted", info.key)
                continue
            found.append(SegmentId(lease_id=segment_id.lease_id, sequence=segment_id.sequence))
        return found

    async def _delete(self, segments: Iterable[SegmentId]) -> None:
        keys = [
            segment_key(self._lease.cluster_id, StoredSegmentId(segment.lease_id, segment.sequence))
            for segment in segments
        ]
        if keys:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._store.delete, keys)
