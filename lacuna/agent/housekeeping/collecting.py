"""Collection: deletes objects that nothing refers to any more.

Segments whose extents have all been replaced or deleted are deleted after a grace period, unless a pin holds them.
Segments that were written but never committed are found by listing the prefix of a lease that has ended. The control
plane chooses the objects. It never chooses one that is referenced or belongs to a live lease.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain

from lacuna.agent.housekeeping.merging import segment_messages
from lacuna.agent.housekeeping.rewriting import SegmentKey
from lacuna.agent.housekeeping.set_aside import SetAside
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
from lacuna.logstore.objects import NotDeletedError, ObjectStore, ObjectStoreError
from lacuna.logstore.segments import SegmentId as StoredSegmentId
from lacuna.logstore.segments import lease_prefix, parse_segment_key, segment_key
from lacuna.logstore.segments.hot import hot_lease
from lacuna.logstore.segments.paths import InvalidPathError

log = logging.getLogger("lacuna.housekeeping")

SEGMENTS_A_PLAN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """How many segments one collection deleted: segments that had been replaced, and segments that had never been
    committed.

    `planned` is the number of replaced segments to delete. `failed` counts segments and leases whose deletion failed;
    `last_failure` describes one of these failures.
    """

    planned: int = 0
    replaced: int = 0
    uncommitted: int = 0
    failed: int = 0
    last_failure: str = ""

    def __str__(self) -> str:
        failed = f"; {self.failed} failures" if self.failed else ""
        return f"{self.replaced} replaced and {self.uncommitted} uncommitted segments{failed}"


class Collector:
    """Deletes the objects that the control plane has chosen for collection. `executor` runs the calls to the store."""

    def __init__(
        self, control: ControlClient, store: ObjectStore, lease: AgentLease, executor: Executor
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor
        #: Replaced segments that could not be deleted, and leases with objects that could not be deleted.
        self.segments_set_aside: SetAside[SegmentKey] = SetAside("collection")
        self.leases_set_aside: SetAside[int] = SetAside("collection")

    async def run_once(self) -> CollectionReport:
        """Get one plan, carry it out and confirm the deletions. Items that failed are left alone for a while.

        Raises ControlPlaneUnavailable, or ObjectStoreError if the store as a whole failed. In that case, the plan is
        not confirmed, and the control plane returns it again.
        """
        now = asyncio.get_running_loop().time()
        request = PlanCollection(
            lease_id=self._lease.lease_id,
            max_segments=SEGMENTS_A_PLAN,
            avoided=segment_messages(self.segments_set_aside.at(now)),
            avoided_lease_ids=self.leases_set_aside.at(now),
        )
        plan = (await self._control.call(Command(plan_collection=request))).collection_plan
        if plan.error_code != ErrorCode.NONE or not (plan.segments or plan.swept_lease_ids):
            return CollectionReport()
        segments, failures = await self._delete(plan.segments)
        uncommitted, swept = 0, []
        for lease_id in plan.swept_lease_ids:
            try:
                uncommitted += await self._sweep(lease_id)
            except NotDeletedError as error:
                self.leases_set_aside.add(
                    lease_id, f"the uncommitted segments of lease {lease_id}", error, now
                )
                failures.append(error)
            else:
                self.leases_set_aside.discard(lease_id)
                swept.append(lease_id)
        if segments or swept:
            confirmation = ConfirmCollection(segments=segments, swept_lease_ids=swept)
            await self._control.call(Command(confirm_collection=confirmation))
        return CollectionReport(
            planned=len(plan.segments),
            replaced=len(segments),
            uncommitted=uncommitted,
            failed=len(failures),
            last_failure=str(failures[-1]) if failures else "",
        )

    async def _delete(
        self, segments: Sequence[SegmentId]
    ) -> tuple[list[SegmentId], list[ObjectStoreError]]:
        now = asyncio.get_running_loop().time()
        failures = await self._delete_objects(segments)
        gone = []
        for segment in segments:
            key = self._key_of(segment)
            which = (segment.lease_id, segment.sequence)
            if key in failures:
                self.segments_set_aside.add(which, key, failures[key], now)
            else:
                self.segments_set_aside.discard(which)
                gone.append(segment)
        return gone, list(failures.values())

    async def _sweep(self, lease_id: int) -> int:
        """Delete the uncommitted segments of a lease. After trying them all, raises NotDeletedError if some remain."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._executor, self._list, lease_id)
        deleted = 0
        failures: dict[str, ObjectStoreError] = {}
        for start in range(0, len(found), SEGMENTS_A_PLAN):
            some = found[start : start + SEGMENTS_A_PLAN]
            request = Command(filter_uncommitted=FilterUncommitted(segments=some))
            unknown = (await self._control.call(request)).uncommitted_filtered.segments
            failed = await self._delete_objects(unknown)
            failures |= failed
            deleted += len(unknown) - len(failed)
        if failures:
            raise NotDeletedError(failures)
        return deleted

    def _list(self, lease_id: int) -> list[SegmentId]:
        """List the objects of a lease. For a hot lease, these are objects put into the bucket for its segments."""
        prefixes = (
            lease_prefix(self._lease.cluster_id, each) for each in (lease_id, hot_lease(lease_id))
        )
        found = []
        for info in chain.from_iterable(map(self._store.list, prefixes)):
            try:
                _, segment_id = parse_segment_key(info.key)
            except InvalidPathError:
                log.warning("%s is not a Lacuna segment, so it is not deleted", info.key)
                continue
            found.append(SegmentId(lease_id=segment_id.lease_id, sequence=segment_id.sequence))
        return found

    async def _delete_objects(
        self, segments: Sequence[SegmentId]
    ) -> Mapping[str, ObjectStoreError]:
        if not segments:
            return {}
        keys = [self._key_of(segment) for segment in segments]
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._store.delete, keys)
        except NotDeletedError as error:
            return error.failures
        return {}

    def _key_of(self, segment: SegmentId) -> str:
        stored = StoredSegmentId(segment.lease_id, segment.sequence)
        return segment_key(self._lease.cluster_id, stored)
