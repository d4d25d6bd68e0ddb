"""The importer: aligns topics, copies their partitions, and synchronizes groups, once or continuously.

If either cluster fails, the importer pauses, and then resumes at the ends of the partitions. An error that cannot
resolve itself ends the import, or stops the affected partition, with a one-line message that says what to do.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import ImportReport
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.importing.cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClusterFailed,
    Kafka,
    Place,
    in_parts,
)
from lacuna.importing.following import Budget, Counts, Following, OutranError, Track
from lacuna.importing.groups import Groups, copy_rights
from lacuna.importing.target import Target, TargetFailed
from lacuna.importing.topics import Aligned, Selection, Topics
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.operating.kafka import Agents
from lacuna.wire.messages import topics as wire

_ALIGN_SECONDS: Final = 30.0
_GROUPS_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 1.0
_TIMEOUT_MS: Final = 30_000
_AT_ONCE: Final = 1_000
_TOPICS_AT_ONCE: Final = 100

#: Errors that may resolve themselves: a restarting cluster, an expired lease, a busy store.
_PASSING: Final = (
    ClusterFailed,
    TargetFailed,
    OutranError,
    ControlPlaneUnavailable,
    ObjectStoreError,
)

GAP: Final = (
    "ends at offset {} here, but the source has already deleted its records below {}: add --accept-gaps to "
    "continue there and leave a hole, or delete the topic here and restart its import"
)
BEHIND: Final = (
    "ends at offset {} here, but at {} in the source: the source has lost records, as happens after an unclean "
    "leader election. Delete the topic here and restart its import, or promote it to keep these records"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What to copy, and how. With `is_once`, the import ends once everything decided at its start has been copied."""

    selection: Selection
    is_once: bool = False
    copies_rights: bool = True
    accepts_gaps: bool = False
    keeps_aborted: bool = False
    bytes_per_second: int | None = None
    #: The interval between lease renewals, from which an importer learns which others share its partitions.
    renewal_seconds: float = 3.0


@dataclass(slots=True)
class Progress:
    tracks: dict[Place, Track] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    left: dict[str, str] = field(default_factory=dict)

    def report(self, source_id: str, selection: Selection) -> ImportReport:
        """Return the report on this importer that the control plane shows."""
        tracks = self.tracks.values()
        return ImportReport(
            source=source_id,
            topics=str(selection),
            partitions=len(tracks),
            stopped=sum(bool(each.stopped) for each in tracks),
            lag=sum(max(0, each.stable_offset - each.copied) for each in tracks),
            undecided=sum(max(0, each.high_watermark - each.stable_offset) for each in tracks),
            bytes_copied=self.counts.bytes_copied,
            segments=self.counts.segments,
        )

    @property
    def done(self) -> int:
        """The number of offsets copied, counted from the log start of each source partition."""
        return sum(max(0, each.copied - each.log_start_offset) for each in self.tracks.values())

    @property
    def total(self) -> int:
        """The number of offsets that the source has decided, including copied ones that it has since lost."""
        return sum(
            max(0, max(each.copied, each.stable_offset) - each.log_start_offset)
            for each in self.tracks.values()
        )


class Importer:
    """An import from `source` into the cluster that `control`, `store` and the agents at `target` form.

    `say` receives messages for the user. Each problem with a partition or group is reported once.
    """

    def __init__(
        self,
        source: Agents,
        target: Agents,
        control: ControlClient,
        store: ObjectStore,
        settings: ImportSettings,
        say: Callable[[str], None],
    ) -> None:
        self._addresses = (source, target)
        self._target = Target(control, store)
        self._settings = settings
        self._say = say
        self._said: set[str] = set()
        self._budget = Budget(settings.bytes_per_second)
        #: The leases of the importers that share the partitions.
        self._workers: Sequence[int] = ()
        #: Set after each commit, and whenever a partition stops or the importers that share the partitions change.
        self._progressed = asyncio.Event()
        #: Whether copying has begun: failures from then on may be temporary.
        self._has_begun = False
        self.progress = Progress()

    async def run(self) -> None:
        """Copy once or continuously. Raises UserError and CommandRefused if a retry cannot help."""
        while True:
            try:
                await self._session()
            except (ExceptionGroup, UserError, *_PASSING, CommandRefused) as failed:
                _end_if_cancelled(failed)
                error = _first(failed)
                is_at_start = isinstance(error, ClusterFailed) and not self._has_begun
                if is_at_start or not isinstance(error, _PASSING):
                    raise error from None
                self._tell(f"restarting in {_PAUSE_SECONDS:g} s: {error}", once=False)
            else:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    def _tell(self, line: str, *, once: bool = True) -> None:
        if not once or line not in self._said:
            self._said.add(line)
            self._say(line)

    async def _session(self) -> None:
        there, here = self._addresses
        async with Kafka(there, "the source") as source, Kafka(here, "the target") as target:
            await self._target.open()
            try:
                await self._share(source, target)
            finally:
                with contextlib.suppress(ControlPlaneUnavailable, CommandRefused):
                    await self._target.close()

    async def _share(self, source: Kafka, target: Kafka) -> None:
        """Copy this importer's share of the source's partitions until everything has been copied."""
        self._workers = await self._target.renew(self._shown(source.cluster_id))
        if len(self._workers) > 1:
            self._tell_workers()
            # By then, other importers have stopped copying the partitions that now belong to this one.
            await asyncio.sleep(self._settings.renewal_seconds)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep_lease(source.cluster_id))
            is_shared_anew = True
            while is_shared_anew:
                try:
                    is_shared_anew = await self._copy(source, target)
                except ExceptionGroup as failed:
                    _end_if_cancelled(failed)
                    if not isinstance(_first(failed), OutranError):
                        raise
                    await asyncio.sleep(_PAUSE_SECONDS)
            keeping.cancel()

    async def _keep_lease(self, source_id: str) -> None:
        while True:
            await asyncio.sleep(self._settings.renewal_seconds)
            workers = await self._target.renew(self._shown(source_id))
            if workers != self._workers:
                self._workers = workers
                self._tell_workers()
                self._progressed.set()

    def _shown(self, source_id: str) -> ImportReport | None:
        """Return the report that makes other importers leave partitions to this one.

        A one-time import returns none and copies every partition itself. Otherwise, it would have to wait until the
        others had copied their shares.
        """
        if self._settings.is_once:
            return None
        return self.progress.report(source_id, self._settings.selection)

    def _tell_workers(self) -> None:
        count = len(self._workers)
        others = "this importer copies" if count == 1 else f"{count} importers share"
        self._tell(f"{others} the partitions from now on", once=False)

    async def _copy(self, source: Kafka, target: Kafka) -> bool:
        """Copy until everything has been copied (return False) or partitions are redistributed (return True)."""
        workers = self._workers
        topics = Topics(source, target, self._settings.selection)
        aligned = await topics.align()
        self._report(aligned)
        if self._settings.copies_rights:
            for line in await copy_rights(source, target):
                self._tell(line)
        self.progress.tracks.clear()
        self._has_begun = True
        following = Following(
            source,
            self._target,
            self._budget,
            self.progress.counts,
            self._progressed,
            keeps_aborted=self._settings.keeps_aborted,
        )
        await self._add_tracks(source, following, aligned, workers)
        groups = Groups(source, target, self._end_of)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(following.run()),
                group.create_task(self._keep_aligned(source, target, topics, following, workers)),
                group.create_task(self._keep_groups(groups)),
            ]
            await self._until_done(workers)
            for task in tasks:
                task.cancel()
        if self._workers != workers:
            return True
        await self._copy_groups(groups)
        await self._drop(target)
        return False

    async def _until_done(self, workers: Sequence[int]) -> None:
        """Wait until everything decided at the start is copied or the importers change. Report stopped partitions."""
        goals = {place: each.stable_offset for place, each in self.progress.tracks.items()}
        while self._workers == workers and not (self._settings.is_once and self._is_done(goals)):
            await self._progressed.wait()
            self._progressed.clear()
            for line in self.progress.counts.stopped:
                self._tell(line)

    def _report(self, aligned: Aligned) -> None:
        self.progress.left = aligned.left
        for name, why in aligned.left.items():
            self._tell(f"{name} {why}")
        for note in aligned.notes:
            self._tell(note)

    def _is_done(self, goals: Mapping[Place, int]) -> bool:
        tracks = self.progress.tracks
        return all(
            tracks[place].stopped or tracks[place].copied >= goal for place, goal in goals.items()
        )

    def _end_of(self, place: Place) -> int | None:
        track = self.progress.tracks.get(place)
        return None if track is None or track.stopped else track.copied

    async def _keep_groups(self, groups: Groups) -> None:
        while True:
            await self._copy_groups(groups)
            await asyncio.sleep(_GROUPS_SECONDS)

    async def _copy_groups(self, groups: Groups) -> None:
        await groups.copy()
        for group_id, why in groups.left.items():
            self._tell(f"group {group_id} {why}")

    async def _keep_aligned(
        self,
        source: Kafka,
        target: Kafka,
        topics: Topics,
        following: Following,
        workers: Sequence[int],
    ) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(following.moved.wait(), _ALIGN_SECONDS)
            following.moved.clear()
            aligned = await topics.align()
            self._report(aligned)
            for track in self.progress.tracks.values():
                name, index = track.place
                mirror = aligned.mirrors.get(name)
                if mirror is None:
                    why = aligned.left.get(name)
                    following.stop(track, why or "no longer exists", is_told=bool(why))
                elif index < len(mirror.there.leaders):
                    track.leader = mirror.there.leaders[index]
            await self._add_tracks(source, following, aligned, workers)
            await self._drop(target)

    async def _add_tracks(
        self, source: Kafka, following: Following, aligned: Aligned, workers: Sequence[int]
    ) -> None:
        """Start copying this importer's remaining partitions, each from the end of its copy."""
        tracks = self.progress.tracks
        new: dict[Place, Track] = {}
        for name, mirror in aligned.mirrors.items():
            for index, leader in enumerate(mirror.there.leaders[: len(mirror.here.leaders)]):
                place = (name, index)
                key = (mirror.here.raw_id, index)
                if place not in tracks and self._target.owns(key, workers):
                    new[place] = Track(
                        place, mirror.there.raw_id, mirror.link, key, leader, 0, 0, 0, next_epoch=0
                    )
        if not new:
            return
        states: list[PartitionState] = []
        for some in in_parts([each.key for each in new.values()], _AT_ONCE):
            states += await self._target.ends(some)
        # Requested after the ends of the copies, which another importer may just have moved.
        starts = await source.offsets(new, EARLIEST, READ_UNCOMMITTED)
        ends = await source.offsets(new, LATEST, READ_COMMITTED)
        for (place, track), state in zip(new.items(), states, strict=True):
            if state.error_code or place not in starts or place not in ends:
                continue  # one of the two has just disappeared, which the next round reports
            self._begin(track, state, starts[place], ends[place])
            tracks[place] = track
            following.add(track)

    async def _drop(self, target: Kafka) -> None:
        """Delete records that the source has deleted. Topics that are only compacted keep their log start."""
        dropped: dict[str, list[wire.DeleteRecordsPartition]] = {}
        for track in self.progress.tracks.values():
            start = min(track.log_start_offset, track.copied)
            if start > track.dropped_to and not track.stopped:
                track.dropped_to = start
                name, index = track.place
                dropped.setdefault(name, []).append(wire.DeleteRecordsPartition(index, start))
        for some in in_parts(list(dropped.items()), _TOPICS_AT_ONCE):
            topics = [wire.DeleteRecordsTopic(name, partitions) for name, partitions in some]
            await target.ask(
                wire.DELETE_RECORDS_REQUEST,
                wire.DELETE_RECORDS_RESPONSE,
                2,
                wire.DeleteRecordsRequest(topics, _TIMEOUT_MS),
            )

    def _begin(self, track: Track, state: PartitionState, start: int, end: int) -> None:
        """Set the position of a partition, or stop the partition if its copy cannot be continued."""
        track.position = track.queued = track.copied = state.high_watermark
        track.next_epoch = state.next_epoch
        track.stable_offset, track.log_start_offset = end, start
        track.dropped_to = state.log_start_offset
        if end < track.copied:
            track.stopped = f"{track} {BEHIND.format(track.copied, end)}"
        elif start > track.copied:
            is_new = track.copied == 0
            if not (is_new or self._settings.accepts_gaps):
                track.stopped = f"{track} {GAP.format(track.copied, start)}"
            track.position = start
        if track.stopped:
            self.progress.counts.stopped.append(track.stopped)
            self._tell(track.stopped)


def _end_if_cancelled(failed: BaseException) -> None:
    """Raise CancelledError if this task was cancelled: a task group would raise its tasks' errors instead."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from failed


def _first(error: BaseException) -> BaseException:
    """Return the error that ended a session. In a group, an error that a retry cannot resolve takes precedence."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    errors = [_first(each) for each in error.exceptions]
    return next((each for each in errors if not isinstance(each, _PASSING)), errors[0])
