"""Checks what rewrites extents. A swap of a topic that is compacted by key may remove records, but never restore one.
A missing or damaged object affects only the merges that have to read it, and only occasionally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from lacuna.agent.housekeeping.merging import Merger, MergeReport
from lacuna.agent.housekeeping.rewriting import SegmentKey
from lacuna.controlplane import machine
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import HotKey
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.shared.log.pieces import all_pieces
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment, Extents, SwapExtents
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import DamagedObjectError, ObjectNotFoundError, ShortReadError
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.segments import CorruptSegmentError
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.loading import load_blocks
from tests.simulation.history import History
from tests.simulation.loop import SimulatedLoop


@contextmanager
def watched_swaps(
    store: ObjectStore, cluster_id: Callable[[], str], history: History, topic: str
) -> Iterator[None]:
    """Compare the result of a swap of `topic` with what it replaces, using the objects and the hot segments."""
    swap_extents = machine.VERBS["swap_extents"].decide
    add = HotBytes.add
    hot: dict[HotKey, bytes] = {}

    def note(self: HotBytes, commit: CommitSegment) -> None:
        hot[commit.segment.lease_id, commit.segment.sequence] = commit.hot
        add(self, commit)

    def swap(turn: Turn, command: SwapExtents) -> Reply:
        replaced = list(_replaced(turn.state, command, topic))
        reply = swap_extents(turn, command)
        assert reply is not None  # a swap is answered at once
        codes = reply.extents_swapped.error_codes
        if turn.records:  # else it was sent again
            for wanted, old, code in zip(command.partitions, replaced, codes, strict=False):
                if old is not None and code == ErrorCode.NONE:
                    back = _offsets(wanted.swap.extents) - _offsets(old)
                    if back:
                        history.wrong(f"a swap brought offset {min(back)} of {topic} back")
        return reply

    def _offsets(extents: Extents) -> set[int]:
        table = ExtentTable()
        table.append(extents)
        found = MemoryStore()
        for key in {*zip(table.lease_ids, table.sequences, strict=True)}:
            name = key_in_lease(cluster_id(), *key)
            found.put(name, [hot[key] if key in hot else store.get_all(name)])
        blocks = load_blocks(found, cluster_id(), list(all_pieces(table)))
        return {
            record.offset
            for block in blocks
            for batch in read_batches(block.data)
            for record in batch.records()
        }

    with (
        mock.patch.object(HotBytes, "add", note),
        mock.patch.dict(machine.VERBS, swap_extents=Verb(swap)),
    ):
        yield


def _replaced(state: State, command: SwapExtents, topic: str) -> Iterator[Extents | None]:
    """Yield what each part of a swap replaces, or None if it is not of this topic."""
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
    """Checks every merge of the agents."""
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
            extents = each.plan.extents
            for segment in zip(extents.lease_ids, extents.sequences, strict=True):
                failed.pop((self, segment), None)

    with mock.patch.multiple(Merger, run_once=run, _note=noted):
        yield
