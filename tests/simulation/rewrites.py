"""Checks what rewrites extents. A swap in a topic that is compacted by key may remove records, but never restore one. A
missing or damaged object affects only the merges that have to read it, and only occasionally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, Final
from unittest import mock

from lacuna.agent.housekeeping.merging import Merger, MergeReport
from lacuna.agent.housekeeping.rewriting import SegmentKey
from lacuna.controlplane import machine
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import HotKey
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, ExtentTable
from lacuna.controlplane.shared.log.live import is_dead, live_mask
from lacuna.controlplane.shared.log.pieces import all_pieces
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment, Extents, FinishCleaning, SwapExtents
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import (
    DamagedObjectError,
    ObjectNotFoundError,
    ObjectStoreError,
    ShortReadError,
)
from lacuna.logstore.records.batch import Record, read_batches
from lacuna.logstore.segments import CorruptSegmentError
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import load_blocks
from tests.simulation.history import History
from tests.simulation.loop import SimulatedLoop


class _KeyedLog:
    """The log of a topic that is compacted by key, as stored in its objects and hot segments."""

    def __init__(
        self, store: ObjectStore, cluster_id: Callable[[], str], history: History, topic: str
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._history = history
        self._topic = topic
        self.hot: dict[HotKey, bytes] = {}

    def check_swap(self, turn: Turn, command: SwapExtents, codes: Sequence[int]) -> None:
        """Check that a swap restores no record, and that an agent's swap drops no key's newest record."""
        replaced = _replaced(turn.state, command, self._topic)
        for wanted, old, code in zip(command.partitions, replaced, codes, strict=False):
            if old is None or code != ErrorCode.NONE:
                continue
            before, after = self._records(_table(old)), self._records(_table(wanted.swap.extents))
            if back := after.keys() - before.keys():
                self._history.wrong(f"a swap brought offset {min(back)} of {self._topic} back")
            if wanted.is_superseding:
                gone = {at: before[at] for at in before.keys() - after.keys()}
                self._check_gone(turn.state.partitions[key_of(wanted.partition)], gone)

    def _check_gone(self, partition: Partition, gone: Mapping[int, Record]) -> None:
        """Check that each dropped record was aborted, is superseded by a stable one, or is a tombstone."""
        newest = self._newest(partition, partition.last_stable_offset)
        if newest is None:
            return
        for offset, record in gone.items():
            if record.value is not None and not is_dead(partition.dead, offset):
                self._history.counts["keyed records dropped by agents"] += 1
                if newest.get(_key_of(record), -1) <= offset:
                    self._history.wrong(
                        f"a swap dropped the newest record of {record.key!r}, at {offset}"
                    )

    def check_clean(self, partition: Partition, end: int) -> None:
        """Check that no key has two values below the end of a pass."""
        self._history.counts["passes over partitions"] += 1
        self._newest(partition, end, once=True)

    def _newest(
        self, partition: Partition, end: int, *, once: bool = False
    ) -> dict[bytes, int] | None:
        """Return each key's newest offset below `end` that was not aborted, or None if an object is damaged.

        With `once`, a second record with the same key is a violation.
        """
        extents = partition.extents
        mask = live_mask(extents, partition.dead, 0, len(extents))
        live = ExtentTable()
        for name in COLUMNS:
            getattr(live, name).extend(compress(getattr(extents, name), mask))
        try:
            records = self._records(live)
        except (ObjectStoreError, PipelineError):
            return None
        found: dict[bytes, int] = {}
        for offset, record in sorted(records.items()):
            if offset < end:
                if once and _key_of(record) in found:
                    self._history.wrong(f"a pass left two records of {record.key!r} below {end}")
                found[_key_of(record)] = offset
        return found

    def _records(self, table: ExtentTable) -> dict[int, Record]:
        found = MemoryStore()
        for key in {*zip(table.lease_ids, table.sequences, strict=True)}:
            name = key_in_lease(self._cluster_id(), *key)
            found.put(name, [self.hot[key] if key in self.hot else self._store.get_all(name)])
        blocks = load_blocks(found, self._cluster_id(), list(all_pieces(table)))
        return {
            record.offset: record
            for block in blocks
            for batch in read_batches(block.data)
            for record in batch.records()
        }


@contextmanager
def watched_swaps(
    store: ObjectStore, cluster_id: Callable[[], str], history: History, topic: str
) -> Iterator[None]:
    """Check the swaps and passes of `topic`."""
    swap_extents = machine.VERBS["swap_extents"].decide
    finish_cleaning = machine.VERBS["finish_cleaning"].decide
    add = HotBytes.add
    keyed = _KeyedLog(store, cluster_id, history, topic)

    def note(self: HotBytes, commit: CommitSegment) -> None:
        keyed.hot[commit.segment.lease_id, commit.segment.sequence] = commit.hot
        add(self, commit)

    def swap(turn: Turn, command: SwapExtents) -> Reply:
        reply = swap_extents(turn, command)
        assert reply is not None  # a swap is answered at once
        if turn.records:  # else it was sent again
            keyed.check_swap(turn, command, reply.extents_swapped.error_codes)
        return reply

    def finish(turn: Turn, command: FinishCleaning) -> Reply:
        reply = finish_cleaning(turn, command)
        assert reply is not None
        for record in turn.records:
            partition = turn.state.partitions[key_of(record.partition_cleaned.partition)]
            keyed.check_clean(partition, record.partition_cleaned.compacted_to)
        return reply

    with (
        mock.patch.object(HotBytes, "add", note),
        mock.patch.dict(machine.VERBS, swap_extents=Verb(swap), finish_cleaning=Verb(finish)),
    ):
        yield


def _key_of(record: Record) -> bytes:
    return bytes(record.key or b"")


def _table(extents: Extents) -> ExtentTable:
    table = ExtentTable()
    table.append(extents)
    return table


def _replaced(state: State, command: SwapExtents, topic: str) -> Iterator[Extents | None]:
    """Yield the extents that each part of a swap replaces, or None if it belongs to another topic."""
    for wanted in command.partitions:
        partition = state.partitions.get(key_of(wanted.partition))
        if partition is not None and state.topics[partition.key[0]].name == topic:
            given = wanted.swap
            extents = partition.extents
            yield extents.slice(*extents.range_of(given.first_offset, given.end_offset))
        else:
            yield None


#: For how long merging leaves a segment alone at which it has failed.
ALONE_SECONDS: Final = 30.0
OF_ONE_OBJECT: Final = (
    CorruptSegmentError,
    DamagedObjectError,
    ObjectNotFoundError,
    ShortReadError,
)


@contextmanager
def watched_merges(loop: SimulatedLoop, history: History) -> Iterator[None]:
    """Check every merge that agents make."""
    run_once, note = Merger.run_once, Merger._note
    failed: dict[tuple[Merger, SegmentKey], float] = {}

    async def run(self: Merger) -> MergeReport | None:
        try:
            report = await run_once(self)
        except OF_ONE_OBJECT as error:
            history.wrong(f"merging has stopped at one object: {error}")
            raise
        if report is not None:
            history.counts["partitions merged"] += report.partitions
            history.counts["partitions not merged, for an object"] += report.failed
        return report

    def noted(self: Merger, merged: Sequence[Any], reasons: Mapping[SegmentKey, Exception]) -> None:
        note(self, merged, reasons)
        now = loop.time()
        for segment, error in reasons.items():
            if now - failed.get((self, segment), -ALONE_SECONDS) < ALONE_SECONDS:
                history.wrong(f"merging does not leave alone what has failed: {error}")
            failed[self, segment] = now
        for each in merged:
            extents = each.planned.extents
            for segment in zip(extents.lease_ids, extents.sequences, strict=True):
                failed.pop((self, segment), None)

    with mock.patch.multiple(Merger, run_once=run, _note=noted):
        yield
