"""Hot segments (adr/0071): checks and counts what control planes return and what swaps move to the bucket.

At the end are the safeguards of hot segments, which `safeguards.py` removes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final
from unittest import mock
from weakref import WeakKeyDictionary

from lacuna.agent import hot as agent_hot
from lacuna.agent.produce import flush
from lacuna.agent.produce.flush import Flusher
from lacuna.agent.produce.hot import HotCopies
from lacuna.controlplane import hot as plane_hot
from lacuna.controlplane import machine
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import HotKey, HotSegment
from lacuna.controlplane.runtime_settings import RuntimeSettings
from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.hot import HOT_BYTES_PER_SECOND, MAX_HOT_BYTES
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import (
    CommitSegment,
    Extents,
    HotRead,
    PlanMerge,
    ReadHot,
    SwapExtents,
    SwapPartition,
)
from lacuna.controlplane.verbs import swapping
from lacuna.controlplane.verbs.turn import Turn
from lacuna.logstore.segments.hot import is_hot, show_segment
from tests.simulation.cluster import Surroundings
from tests.simulation.history import History

#: How the names of these counts begin.
PREFIX: Final = "hot segments: "
Remove = Callable[[], AbstractContextManager[Any]]
patch = mock.patch.object
#: The position of an extent in a hot segment.
Moved = tuple[HotKey, int]


def draw_settings(around: Surroundings, snapshot_records: int) -> RuntimeSettings:
    """Return the settings for a history's control planes, some of which refuse most hot segments."""
    draw = around.randomness("hot intake")
    return RuntimeSettings(
        snapshot_records=snapshot_records,
        hot_bytes_per_second=draw.choice((2_000, HOT_BYTES_PER_SECOND, HOT_BYTES_PER_SECOND)),
        max_hot_bytes=draw.choice((4_000, MAX_HOT_BYTES, MAX_HOT_BYTES)),
    )


@contextmanager
def watched(around: Surroundings, history: History) -> Iterator[None]:
    """Check and count hot segments. In half of the histories, the caches hold only a few of them."""
    most = around.randomness("hot caches").choice((1_000, 64 << 20))
    with (
        mock.patch.object(plane_hot, "_CACHE_BYTES", most),
        mock.patch.object(agent_hot, "_KEPT_BYTES", most),
        _intake_watched(history),
        _reads_watched(history),
        _swaps_watched(history),
    ):
        yield


@contextmanager
def _intake_watched(history: History) -> Iterator[None]:
    """Count segments that the journal takes, that go to the bucket instead, and that are dropped. No flush may fail."""
    add, drop, commit_cold = HotBytes.add, HotBytes._drop, Flusher._commit_cold
    copy, report = HotCopies._put, flush._report

    def added(self: HotBytes, commit: CommitSegment) -> None:
        history.counts[f"{PREFIX}committed"] += 1
        add(self, commit)

    async def dropped(self: HotBytes, keys: Sequence[HotKey]) -> None:
        before = [key for key in keys if key in self._journal.hot]
        await drop(self, keys)
        gone = [*_missing(self, before)]
        history.counts[f"{PREFIX}dropped"] += len(gone)
        await self._read(gone)  # as a reader does that planned long before

    async def committed_cold(self: Flusher, flight: Any) -> Any:
        history.counts[f"{PREFIX}refused"] += 1
        return await commit_cold(self, flight)

    async def copied(self: HotCopies, *segment: Any) -> None:
        before = self.copied
        await copy(self, *segment)
        history.counts[f"{PREFIX}{'copied' if self.copied > before else 'not copied'}"] += 1

    def reported(flight: Any) -> None:
        # The flushes of a killed process are closed wherever they stood, once nothing runs.
        if asyncio.events._get_running_loop() is None:
            return
        history.wrong(f"flush {flight.segment_id} ended with {sys.exception()!r}")
        report(flight)

    with (
        mock.patch.object(flush, "_report", reported),
        mock.patch.multiple(HotBytes, add=added, _drop=dropped),
        mock.patch.object(Flusher, "_commit_cold", committed_cold),
        mock.patch.object(HotCopies, "_put", copied),
    ):
        yield


def _missing(hot: HotBytes, keys: Collection[HotKey]) -> Iterator[HotKey]:
    return (key for key in keys if key not in hot._journal.hot)


@contextmanager
def _reads_watched(history: History) -> Iterator[None]:
    """Check that a control plane answers only with bytes that its journal holds or returned for this answer."""
    read, read_some, read_journal = HotBytes.read, HotBytes._read, HotBytes._read_journal
    returned: ContextVar[set[HotKey]] = ContextVar("returned")

    async def counted(self: HotBytes, command: ReadHot) -> Reply:
        reply = await read(self, command)
        history.counts[f"{PREFIX}reads refused"] += reply.HasField("failure")
        for found in reply.hot_read.segments:
            history.counts[f"{PREFIX}{'read' if found.data else 'read too late'}"] += 1
        return reply

    async def noted(self: HotBytes, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes | None]:
        found = await read_journal(self, keys)
        returned.get().update(found)
        return found

    async def checked(self: HotBytes, keys: Sequence[HotKey]) -> HotRead:
        returned.set(set())
        answer = await read_some(self, keys)
        absent = {*_missing(self, keys)} - returned.get()
        for key, found in zip(keys, answer.segments, strict=True):
            if found.data and key in absent:
                history.wrong(
                    f"a control plane serves {show_segment(*key)}, which its journal does not have"
                )
        return answer

    with mock.patch.multiple(HotBytes, read=counted, _read=checked, _read_journal=noted):
        yield


@contextmanager
def _swaps_watched(history: History) -> Iterator[None]:
    """Check that merging moves the bytes of a hot segment only once."""
    planner, verb = machine.VERBS["plan_merge"], machine.VERBS["swap_extents"]
    planned: dict[bytes, set[Moved]] = {}

    def plan(turn: Turn, command: PlanMerge) -> Reply | None:
        reply = planner.decide(turn, command)
        assert reply is not None
        for each in reply.merge_plan.partitions:
            planned[each.fence] = _hot_in(ExtentTable.from_columns(each.extents))
        return reply

    def swap(turn: Turn, command: SwapExtents) -> Reply | None:
        merges = [] if command.is_compaction else command.partitions
        stale = [planned[wanted.fence] - _hot_of(turn.state, wanted) for wanted in merges]
        reply = verb.decide(turn, command)
        accepted = {
            key_of(each.partition)
            for record in turn.records
            for each in record.extents_replaced.partitions
        }
        for wanted, gone in zip(merges, stale, strict=True):
            is_accepted = key_of(wanted.partition) in accepted
            moved = "moved" if is_accepted else "not moved, for their plan"
            history.counts[f"{PREFIX}extents {moved}"] += len(planned[wanted.fence])
            if is_accepted and gone:
                key, position = min(gone)
                history.wrong(
                    f"a swap moves the bytes at {position} of {show_segment(*key)}, which were moved before"
                )
        return reply

    with mock.patch.dict(
        machine.VERBS,
        plan_merge=planner._replace(decide=plan),
        swap_extents=verb._replace(decide=swap),
    ):
        yield


def _hot_in(extents: ExtentTable | Extents) -> set[Moved]:
    columns = zip(extents.lease_ids, extents.sequences, extents.positions, strict=True)
    return {
        ((lease_id, sequence), position)
        for lease_id, sequence, position in columns
        if is_hot(lease_id)
    }


def _hot_of(state: State, wanted: SwapPartition) -> set[Moved]:
    """Return what a partition has in hot segments within the range of a swap."""
    partition = state.partitions.get(key_of(wanted.partition))
    if partition is None:
        return set()
    extents, swap = partition.extents, wanted.swap
    return _hot_in(extents.slice(*extents.range_of(swap.first_offset, swap.end_offset)))


def _late_hot_bytes() -> AbstractContextManager[Any]:
    """The bytes of hot segments are written with the append that follows the one with their commits."""
    take = HotBytes.take
    waiting: WeakKeyDictionary[HotBytes, list[HotSegment]] = WeakKeyDictionary()

    def late(self: HotBytes) -> list[HotSegment]:
        before = waiting.get(self, [])
        waiting[self] = take(self)
        return before

    return patch(HotBytes, "take", late)


def _dropped_at_once() -> AbstractContextManager[Any]:
    """Hot segments are dropped before merging has moved them out."""
    return patch(plane_hot, "_is_due", lambda *_: True)


def _hot_bytes_from_memory() -> AbstractContextManager[Any]:
    """A control plane serves hot segments from its memory whether or not its journal has them."""
    read, keep = HotBytes._read, HotBytes._keep
    memories: WeakKeyDictionary[HotBytes, dict[HotKey, bytes]] = WeakKeyDictionary()

    def kept(self: HotBytes, key: HotKey, data: bytes) -> None:
        memories.setdefault(self, {})[key] = data
        keep(self, key, data)

    async def remembered(self: HotBytes, keys: Sequence[HotKey]) -> HotRead:
        answer, memory = await read(self, keys), memories.get(self, {})
        for key, found in zip(keys, answer.segments, strict=True):
            if found.is_gone and key in memory:
                found.data, found.is_gone = memory[key], False
        return answer

    return mock.patch.multiple(HotBytes, _keep=kept, _read=remembered)


def no_plan_digest() -> AbstractContextManager[Any]:
    """A swap replaces the current extents instead of the planned ones."""
    return patch(swapping, "_is_as_planned", lambda *_: True)


#: Name → what takes it away. Short histories find them.
HOT_SAFEGUARDS: Final[Mapping[str, Remove]] = {
    "hot bytes in the append": _late_hot_bytes,
    "keeping hot bytes until they are moved": _dropped_at_once,
    "hot bytes read from the journal": _hot_bytes_from_memory,
    "moving hot extents only once": no_plan_digest,
}
