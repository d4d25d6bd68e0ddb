"""Collection: objects that nothing refers to are deleted.

Two kinds: segments whose extents were all replaced or deleted, after a grace period and when no read pin
holds them; and what writers left behind without a commit, found by listing the prefix of a lease that has
ended. The control plane says which; an object that it knows, or whose lease lives, is never touched.
"""

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from agent.lease import AgentLease
from controlplane.client import ControlClient
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import (
    ConfirmCollection,
    FilterUncommitted,
    PlanCollection,
    SegmentId,
)
from logstore.objects import ObjectStore
from logstore.segments import SegmentId as StoredSegmentId
from logstore.segments import lease_prefix, parse_segment_key, segment_key
from logstore.segments.paths import InvalidPathError

log = logging.getLogger("lacuna.housekeeping")

SEGMENTS_A_PLAN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """What one collection deleted: replaced segments, and objects that were never committed."""

    replaced: int = 0
    uncommitted: int = 0


class Collector:
    """Deletes what the control plane gives up. `executor` runs the store's calls."""

    def __init__(
        self, control: ControlClient, store: ObjectStore, lease: AgentLease, executor: Executor
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor

    async def run_once(self) -> CollectionReport:
        """One plan. Raises ControlPlaneUnavailable, ObjectStoreError; what was deleted stays planned then."""
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
                log.warning("%s is no segment: it is nobody's here, and stays", info.key)
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
